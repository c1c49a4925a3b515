// Sorts a table by the column whose head is clicked, numbers by their key, the other way round the next time, and then as the
// page had it.
for (const table of document.querySelectorAll(".sortable")) {
  const body = table.tBodies[0];
  const original = [...body.rows];
  for (const head of table.tHead.rows[0].cells) {
    head.tabIndex = 0;
    const sort = () => {
      const column = head.cellIndex;
      const next = { none: "descending", descending: "ascending", ascending: "none" }[head.getAttribute("aria-sort") ?? "none"];
      for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
      if (next === "none") return body.append(...original);
      head.setAttribute("aria-sort", next);
      const key = (row) => {
        const cell = row.cells[column];
        return cell.dataset.key === undefined ? cell.textContent : Number(cell.dataset.key);
      };
      const compare = (a, b) => (typeof a === "string" ? a.localeCompare(b, undefined, { numeric: true }) : a - b);
      const sign = next === "ascending" ? 1 : -1;
      body.append(...[...original].sort((a, b) => compare(key(a), key(b)) * sign));
    };
    head.addEventListener("click", sort);
    head.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      sort();
    });
  }
}
// A link to a section that is folded unfolds it.
const unfold = () => document.getElementById(location.hash.slice(1))?.closest("details.folded")?.setAttribute("open", "");
addEventListener("hashchange", unfold);
unfold();
