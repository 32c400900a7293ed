"use strict";
(() => {
// Tables: a click on a heading sorts; numbers largest first.
function key(row, column) {
  const cell = row.cells[column], key = cell.dataset.k;
  return key === undefined ? cell.textContent.trim() : key === "" ? null : Number(key);
}
function sort(heading) {
  const body = heading.closest("table").tBodies[0], column = heading.cellIndex, all = [...body.rows];
  const keys = new Map(all.map(row => [row, key(row, column)]));
  const numbers = [...keys.values()].some(one => typeof one === "number");
  const was = heading.getAttribute("aria-sort"), up = was ? was === "descending" : !numbers;
  for (const other of heading.parentElement.cells) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", up ? "ascending" : "descending");
  const compare = (a, b) => typeof a === "number" ? a - b : a.localeCompare(b, undefined, {numeric: true});
  all.sort((one, two) => {
    const a = keys.get(one), b = keys.get(two);
    if (a === null || b === null) return (a === null) - (b === null); // what there is not comes last
    return up ? compare(a, b) : compare(b, a);
  });
  body.append(...all);
}
for (const heading of document.querySelectorAll(".sortable th")) heading.firstElementChild.addEventListener("click", () => sort(heading));
for (const input of document.querySelectorAll("[data-filter]")) {
  input.parentElement.hidden = false;
  input.addEventListener("input", () => {
    const wanted = input.value.toLowerCase();
    for (const row of document.getElementById(input.dataset.filter).tBodies[0].rows)
      row.hidden = !row.textContent.toLowerCase().includes(wanted);
  });
}
})();
