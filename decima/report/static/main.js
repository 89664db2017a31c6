// Start: tables, charts, timelines; and again what depends on colours and sizes when these change.

let plots = [];

function recolour() {
  plots.forEach(([plot]) => plot.destroy());
  plots = drawCharts();
  if (CHARTS.length) redraw();
}

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : window.matchMedia("(prefers-color-scheme: dark)").matches;
}

function labelTheme() {
  const button = document.getElementById("theme");
  button.textContent = isDark() ? "Light" : "Dark";
  button.setAttribute("aria-pressed", String(isDark()));
}

document.getElementById("theme").addEventListener("click", () => {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  labelTheme();
  recolour();
});
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  labelTheme();
  recolour();
});

let resizing = 0;
window.addEventListener("resize", () => {
  clearTimeout(resizing);
  resizing = setTimeout(() => {
    for (const [plot, place] of plots) plot.setSize({ width: Math.max(280, place.clientWidth), height: 260 });
    for (const chart of CHARTS) chart.resize();
    if (CHARTS.length) redraw();
  }, 120);
});

labelTheme();
document.querySelectorAll("table.sortable").forEach(sortable);
plots = drawCharts();
startTimelines().then(() => {
  startDecisions();
  document.documentElement.dataset.ready = "true";
});
