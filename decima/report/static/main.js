// Start: tables, charts, timelines; and again what depends on colours and sizes when these change.

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
