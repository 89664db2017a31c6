// Lines by uPlot, bars by plain elements.

const PARTS = { work: "#0072b2", "first tasks": "#56b4e9", moving: "#e69f00", idle: null };

function axis(label) {
  const colour = cssColour("--soft"), grid = { stroke: cssColour("--grid"), width: 1 };
  return { label, stroke: colour, grid, ticks: grid, font: "11px system-ui", labelFont: "11px system-ui",
    size: label === undefined ? 40 : 44, labelSize: 18 };
}

function drawLines(figure, form) {
  const place = figure.querySelector(".plot");
  place.replaceChildren();
  const series = form.series, names = Object.keys(series.y);
  if (series.x.length === 0) {
    place.append("Nothing to draw: no job took any time.");
    return null;
  }
  const paths = form.stepped ? uPlot.paths.stepped({ align: 1 }) : undefined;
  const shorter = (self, ticks) => ticks.map((v) => (v === null ? "" : v >= 1e4 ? v.toExponential(0) : String(v)));
  const options = {
    width: Math.max(280, place.clientWidth), height: 260,
    scales: { x: { time: false, distr: form.log_x ? 3 : 1 }, y: { distr: form.log_y ? 3 : 1 } },
    axes: [{ ...axis(form.x), values: form.log_x ? shorter : undefined },
      { ...axis(form.y), values: form.log_y ? shorter : undefined, size: 50 }],
    series: [{ label: form.x },
      ...names.map((name, index) => ({ label: name, width: 1.6, paths, points: { show: false }, ...lineOf(index) }))],
    cursor: { drag: { x: true, y: false } },
  };
  return new uPlot(options, [series.x, ...names.map((name) => series.y[name])], place);
}

function drawParts(figure, shares) {
  const place = figure.querySelector(".plot");
  const grid = make("div", { class: "parts" });
  for (const [policy, parts] of Object.entries(shares)) {
    const bar = make("div", { class: "bar", role: "img" });
    const words = [];
    for (const [part, colour] of Object.entries(PARTS)) {
      const percent = 100 * parts[part];
      words.push(`${part} ${percent.toFixed(1)} %`);
      const span = make("span", { title: `${part} ${percent.toFixed(1)} %` });
      span.style.width = `${percent}%`;
      if (colour !== null) span.style.background = colour;
      if (percent >= 8) span.textContent = `${Math.round(percent)} %`;
      if (colour !== null) span.style.color = part === "work" ? "#fff" : "#111";
      bar.append(span);
    }
    bar.setAttribute("aria-label", `${policy}: ${words.join(", ")}`);
    grid.append(make("div", {}, policy), bar);
  }
  const key = make("div", { class: "key" });
  for (const [part, colour] of Object.entries(PARTS)) {
    const patch = make("i");
    patch.style.background = colour === null ? "var(--idle)" : colour;
    key.append(make("span", {}, patch, part));
  }
  place.replaceChildren(grid, key);
}

function drawCharts() {
  const plots = [];
  for (const figure of document.querySelectorAll("figure[data-chart]")) {
    const chart = DATA.charts[figure.dataset.chart];
    if (chart.kind === "parts") drawParts(figure, chart.shares);
    else plots.push([drawLines(figure, chart), figure.querySelector(".plot")]);
  }
  return plots.filter(([plot]) => plot !== null);
}
