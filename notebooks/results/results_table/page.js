"use strict";
(() => {
  const form = document.getElementById("filters");
  const tables = [...document.querySelectorAll("table.sortable")];
  const rows = tables.flatMap((table) => [...table.tBodies[0].rows]);
  const number = (cell) => parseFloat((cell.firstChild?.textContent ?? "").replace(/,/g, ""));

  // A row that does not have what a filter asks for, as a task has no loop, is not filtered by it.
  const select = () => {
    const most = parseFloat(form.elements.megabytes.value);
    const words = form.elements.policy.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of rows) {
      const head = `${row.cells[0].textContent} ${row.cells[0].title}`.toLowerCase();
      const chosen = [...form.querySelectorAll("select")].every(
        (field) => !field.value || (row.dataset[field.name] ?? field.value) === field.value
      );
      const fits = isNaN(most) || number(row.querySelector(".mb")) <= most;
      row.hidden = !(chosen && fits && words.every((word) => head.includes(word)));
    }
    const shown = rows.filter((row) => !row.hidden).length;
    form.querySelector("output").textContent = `${shown} of ${rows.length} rows`;
  };
  form.hidden = false;
  form.addEventListener("input", select);
  form.addEventListener("submit", (event) => event.preventDefault());
  select();

  // A click on the head of a column sorts by it; a row without a value stays below.
  const compare = (column, sign) => (first, second) => {
    const [a, b] = [first.cells[column], second.cells[column]];
    const [x, y] = [number(a), number(b)];
    if (isNaN(x) && isNaN(y)) return sign * a.textContent.localeCompare(b.textContent);
    if (isNaN(x) || isNaN(y)) return isNaN(x) ? 1 : -1;
    return sign * (x - y);
  };
  for (const table of tables) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const up = head.getAttribute("aria-sort") !== "ascending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const body = table.tBodies[0];
        body.append(...[...body.rows].sort(compare(column, up ? 1 : -1)));
      });
    });
  }
})();
