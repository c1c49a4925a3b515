// Sorts a table by the column whose head is clicked, numbers by their key, the other way round the next time, and then as the
// page had it.
for (const table of document.querySelectorAll(".sortable")) {
  const body = table.tBodies[0];
  // A row's chart stands in a row of its own behind it, and goes where it goes.
  const original = [...body.rows].filter((row) => !row.classList.contains("chart-row"));
  const charts = new Map(original.map((row) => [row, row.nextElementSibling?.classList.contains("chart-row") ? row.nextElementSibling : null]));
  const place = (rows) => body.append(...rows.flatMap((row) => [row, charts.get(row)].filter(Boolean)));
  if (original.length > 12) {
    const filter = Object.assign(document.createElement("input"), { type: "search", className: "filter", placeholder: "filter by any text in a row" });
    filter.setAttribute("aria-label", filter.placeholder);
    filter.addEventListener("input", () => {
      for (const row of original) {
        row.hidden = !row.textContent.toLowerCase().includes(filter.value.toLowerCase());
        if (charts.get(row)) charts.get(row).hidden = row.hidden;
      }
    });
    table.parentNode.before(filter);
  }
  for (const head of table.tHead.rows[0].cells) {
    head.tabIndex = 0;
    const sort = () => {
      const column = head.cellIndex;
      const next = { none: "descending", descending: "ascending", ascending: "none" }[head.getAttribute("aria-sort") ?? "none"];
      for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
      if (next === "none") return place(original);
      head.setAttribute("aria-sort", next);
      const key = (row) => {
        const cell = row.cells[column];
        return cell.dataset.key === undefined ? cell.textContent : Number(cell.dataset.key);
      };
      const compare = (a, b) => (typeof a === "string" ? a.localeCompare(b, undefined, { numeric: true }) : a - b);
      const sign = next === "ascending" ? 1 : -1;
      place([...original].sort((a, b) => compare(key(a), key(b)) * sign));
    };
    head.addEventListener("click", sort);
    head.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      sort();
    });
  }
}
// What is folded is printed too.
const folded = [...document.querySelectorAll("details:not([open])")];
addEventListener("beforeprint", () => folded.forEach((part) => { part.wasOpen = part.open; part.open = true; }));
addEventListener("afterprint", () => folded.forEach((part) => { part.open = part.wasOpen; }));
// A link to a section that is folded unfolds it.
const unfold = () => document.getElementById(location.hash.slice(1))?.closest("details.folded")?.setAttribute("open", "");
addEventListener("hashchange", unfold);
unfold();
for (const button of document.querySelectorAll("button.copy")) {
  button.addEventListener("click", async () => {
    await navigator.clipboard?.writeText(button.previousElementSibling.textContent);
    button.textContent = "copied";
  });
}
