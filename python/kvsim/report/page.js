"use strict";
(() => {
  // Tables: a click on the head of a column sorts by it, numbers from high to low first.
  const number = (cell) =>
    parseFloat(cell.firstChild.textContent.replace(/,/g, "").replace("−", "-"));
  const compare = (column, sign) => (first, second) => {
    const [a, b] = [first.cells[column], second.cells[column]];
    const [x, y] = [number(a), number(b)];
    if (isNaN(x) !== isNaN(y)) return isNaN(x) ? 1 : -1; // a row without a value stays below
    return sign * (isNaN(x) ? a.textContent.localeCompare(b.textContent) : x - y);
  };
  for (const table of document.querySelectorAll("table.sortable")) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const names = column === 0;
        const sorted = head.getAttribute("aria-sort");
        const up = sorted ? sorted === "descending" : names;
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const body = table.tBodies[0];
        body.append(...[...body.rows].sort(compare(column, up ? 1 : -1)));
      });
    });
  }

  // Figures: where the library is next to the page, it replaces the pictures.
  if (!window.Plotly) return;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const narrow = matchMedia("(max-width: 640px)");
  const named = (value) => {
    if (typeof value === "string" && value.startsWith("var(")) {
      const name = value.slice(4, -1);
      return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
    }
    if (Array.isArray(value)) return value.map(named);
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, named(part)]));
  };
  const axis = { gridcolor: "var(--grid)", linecolor: "var(--muted)", zeroline: false };
  const config = {
    displaylogo: false,
    responsive: true,
    modeBarButtons: [["zoom2d", "pan2d", "resetScale2d", "toImage"]],
  };

  const layoutOf = (given) => {
    const layout = {
      height: 460,
      margin: { l: 60, r: 10, t: 30, b: 60 },
      paper_bgcolor: "var(--paper)",
      plot_bgcolor: "var(--paper)",
      font: { family: "system-ui, sans-serif", size: 12, color: "var(--ink)" },
      hoverlabel: { bgcolor: "var(--shade)", bordercolor: "var(--grid)", font: { color: "var(--ink)" } },
      hovermode: "closest",
      uirevision: "kept", // a change of theme keeps what the reader has hidden
      ...given,
    };
    if (narrow.matches) layout.legend = { orientation: "h", y: -0.2 };
    for (const key of Object.keys(layout)) {
      if (/^[xy]axis/.test(key)) layout[key] = { automargin: true, ...axis, ...layout[key] };
    }
    return layout;
  };

  for (const source of document.querySelectorAll("script.explore")) {
    const { data, layout } = JSON.parse(source.textContent);
    const place = document.createElement("div");
    place.className = "explored";
    source.before(place);
    const draw = () => Plotly.react(place, named(data), named(layoutOf(layout)), config);
    draw().then(() => {
      source.parentElement.querySelector("picture").hidden = true;
    });
    dark.addEventListener("change", draw);
    narrow.addEventListener("change", draw);
  }
})();
