// Tables: sorted by a click on a heading, each group of rows by itself; with a hint while columns are out of sight.

const sortKey = (row, column) => {
  const cell = row.cells[column];
  if (cell.dataset.sort !== undefined) return Number(cell.dataset.sort);
  return cell.classList.contains("figure") ? Infinity : cell.textContent.trim();
};
const compare = (a, b) => (typeof a === "number" ? a - b : a.localeCompare(b, "en", { numeric: true }));

const sortBy = (table, heading, column) => {
  const ascending = heading.getAttribute("aria-sort") !== "ascending";
  table.querySelectorAll("th[aria-sort]").forEach((other) => other.removeAttribute("aria-sort"));
  heading.setAttribute("aria-sort", ascending ? "ascending" : "descending");
  for (const body of table.tBodies) {
    const rows = [...body.rows].filter((row) => !row.classList.contains("group"));
    const sign = ascending ? 1 : -1;
    rows.sort((a, b) => {
      const [x, y] = [sortKey(a, column), sortKey(b, column)];
      // Absent values stay last in both directions.
      if (x === Infinity || y === Infinity) return (x === Infinity) - (y === Infinity);
      return sign * compare(x, y);
    });
    body.append(...rows);
  }
};

for (const table of document.querySelectorAll("table")) {
  if (table.tBodies.length === 0 || [...table.tBodies].every((body) => body.rows.length < 2)) continue;
  [...table.tHead.rows[0].cells].forEach((heading, column) => {
    const button = element("button", { type: "button", title: "sort" }, ...heading.childNodes);
    button.addEventListener("click", () => sortBy(table, heading, column));
    heading.append(button);
  });
}

for (const scroll of document.querySelectorAll(".scroll")) {
  const mark = () => {
    const hidden = scroll.scrollWidth - scroll.clientWidth;
    if (hidden < 2) delete scroll.parentElement.dataset.scrolls;
    else scroll.parentElement.dataset.scrolls = scroll.scrollLeft > hidden - 2 ? "end" : "more";
  };
  scroll.addEventListener("scroll", mark, { passive: true });
  new ResizeObserver(mark).observe(scroll);
}
