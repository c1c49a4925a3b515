// Sorts a table by the column whose head is clicked, numbers by their key, and the other way round the next time.
for (const head of document.querySelectorAll(".sortable th")) {
  head.tabIndex = 0;
  const sort = () => {
    const column = [...head.parentNode.children].indexOf(head);
    const ascending = head.getAttribute("aria-sort") === "descending";
    for (const other of head.parentNode.children) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", ascending ? "ascending" : "descending");
    const body = head.closest("table").tBodies[0];
    const key = (row) => {
      const cell = row.cells[column];
      return cell.dataset.key === undefined ? cell.textContent : Number(cell.dataset.key);
    };
    const compare = (a, b) => (typeof a === "string" ? a.localeCompare(b, undefined, { numeric: true }) : a - b);
    const rows = [...body.rows].sort((a, b) => compare(key(a), key(b)) * (ascending ? 1 : -1));
    body.append(...rows);
  };
  head.addEventListener("click", sort);
  head.addEventListener("keydown", (event) => event.key === "Enter" && sort());
}
