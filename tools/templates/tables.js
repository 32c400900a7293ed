"use strict";
(() => {
// Tables: a click on a heading sorts; numbers largest first.  What is sorted, and filtered, are rows, or in a table
// of `groups` its bodies: the first row of each is what it is sorted by.
function parts(table) {
  return table.classList.contains("groups") ? [...table.tBodies] : [...table.tBodies[0].rows];
}
function key(part, column) {
  const cell = (part.rows ? part.rows[0] : part).cells[column];
  if (cell === undefined) return null;
  const key = cell.dataset.k;
  return key === undefined ? cell.textContent.trim() : key === "" ? null : Number(key);
}
function sort(heading) {
  const table = heading.closest("table"), column = heading.cellIndex, all = parts(table);
  const keys = new Map(all.map(part => [part, key(part, column)]));
  const numbers = [...keys.values()].some(one => typeof one === "number");
  const was = heading.getAttribute("aria-sort"), up = was ? was === "descending" : !numbers;
  for (const other of heading.parentElement.cells) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", up ? "ascending" : "descending");
  const compare = (a, b) => typeof a === "number" ? a - b : a.localeCompare(b, undefined, {numeric: true});
  all.sort((one, two) => {
    const [a, b] = [one, two].map(part => numbers && typeof keys.get(part) !== "number" ? null : keys.get(part));
    if (a === null || b === null) return (a === null) - (b === null); // what there is not comes last
    return up ? compare(a, b) : compare(b, a);
  });
  (all.length ? all[0].parentElement : table).append(...all);
}
for (const heading of document.querySelectorAll(".sortable thead th")) heading.firstElementChild?.addEventListener("click", () => sort(heading));
for (const input of document.querySelectorAll("[data-filter]")) {
  input.parentElement.hidden = false;
  input.addEventListener("input", () => {
    const wanted = input.value.toLowerCase();
    for (const part of parts(document.getElementById(input.dataset.filter)))
      part.hidden = !part.textContent.toLowerCase().includes(wanted);
  });
}
})();
