// Start: tables, charts, timelines; and again what depends on colours and sizes when these change.

// Tables that sort by a click on a heading: numbers by their value, policies by name.

function sortable(table) {
  const headings = [...table.tHead.rows[0].cells];
  headings.forEach((heading, column) => {
    heading.querySelector("button").addEventListener("click", () => {
      const rising = heading.getAttribute("aria-sort") !== "ascending";
      for (const other of headings) other.removeAttribute("aria-sort");
      heading.setAttribute("aria-sort", rising ? "ascending" : "descending");
      const body = table.tBodies[0];
      const value = (row) => {
        const cell = row.cells[column];
        return "value" in cell.dataset ? Number(cell.dataset.value) : cell.textContent.trim();
      };
      const rows = [...body.rows].sort((a, b) => {
        const x = value(a), y = value(b);
        return (typeof x === "number" ? x - y : x.localeCompare(y)) * (rising ? 1 : -1);
      });
      body.append(...rows);
    });
  });
}

let plots = [];

function recolour() {
  plots.forEach(([plot]) => plot.destroy());
  plots = drawCharts();
  if (CHARTS.length) redraw();
}

let resizing = 0;
window.addEventListener("resize", () => {
  clearTimeout(resizing);
  resizing = setTimeout(() => {
    for (const [plot, place] of plots) plot.setSize({ width: Math.max(280, place.clientWidth), height: 260 });
    for (const chart of CHARTS) chart.resize();
    if (CHARTS.length) redraw();
  }, 120);
});

document.querySelectorAll("table.sortable").forEach(sortable);
plots = drawCharts();
startTimelines().then(() => {
  startDecisions();
  document.documentElement.dataset.ready = "true";
});
