// Lines by uPlot, bars by plain elements.

const MOST_NAMED = 24; // a longer list of names scrolls
const WHOLE_STEPS = Array.from({ length: 17 }, (_, power) => [1, 2, 5].map((one) => one * 10 ** power)).flat();

// Numbers of an axis, with as many digits as tell them apart: a tick is a multiple of `step`, and of
// a logarithmic axis a digit and its power of ten.
function tickWords(plot, ticks, index, space, step) {
  const sizes = ticks.filter((tick) => tick).map(Math.abs), most = Math.max(...sizes);
  const digits = step > 0 && step < most ? Math.ceil(Math.log10(most / step)) + 2 : 3;
  const notation = most >= 1e15 || Math.min(...sizes) < 1e-4 ? "scientific" : most >= 1e6 ? "compact" : "standard";
  const words = new Intl.NumberFormat("en", { notation, maximumSignificantDigits: Math.min(21, digits) });
  return ticks.map((tick) => (tick === null ? "" : tick === 0 ? "0" : words.format(tick)));
}

function valueWords(plot, value) {
  return value == null ? "" : new Intl.NumberFormat("en", { maximumSignificantDigits: 4 }).format(value);
}

// Room for the widest number, as uPlot's example of axes that size themselves.
function axisSize(plot, words, index, cycle) {
  const axis = plot.axes[index];
  if (cycle > 1) return axis._size;
  plot.ctx.font = axis.font[0];
  const widths = (words || []).map((word) => plot.ctx.measureText(word).width / uPlot.pxRatio);
  return Math.ceil(axis.ticks.size + axis.gap + Math.max(0, ...widths)) + 4;
}

function axis(values, more) {
  const colour = cssColour("--soft"), grid = { stroke: cssColour("--grid"), width: 1 };
  const isWhole = values.every((value) => value === null || Number.isSafeInteger(value));
  return { stroke: colour, grid, ticks: grid, font: "11px system-ui", labelFont: "11px system-ui", labelSize: 18,
    size: 40, values: tickWords, ...(isWhole ? { incrs: WHOLE_STEPS } : {}), ...more };
}

// Indices of values without a neighbour, which no line shows.
function lonely(values) {
  const isThere = (index) => values[index] !== null && values[index] !== undefined;
  return values.flatMap((_, i) => (isThere(i) && !isThere(i - 1) && !isThere(i + 1) ? [i] : []));
}

// As many points as uPlot finds room for; those without a neighbour always.
function pointsOf(isStepped) {
  const filter = (plot, index, isShown) => (isShown ? null : lonely(plot.data[index]));
  return isStepped ? { show: false, filter } : { filter };
}

// A scale of one value only has it in the middle.
function rangeOf(x, isLog) {
  const [low, high] = [x[0], x[x.length - 1]];
  if (low !== high) return {};
  if (isLog) return { range: [low / 10, low * 10] };
  const reach = Number.isInteger(low) ? 0.5 : Math.abs(low) / 2;
  return { range: [low - reach, low + reach] };
}

// Lines across the plot where something begins, with a word for it.
function markPlaces(plot, marks) {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.strokeStyle = ctx.fillStyle = cssColour("--soft");
  ctx.font = plot.axes[0].font[0];
  ctx.textBaseline = "top";
  ctx.setLineDash([4, 4]);
  for (const [place, words] of marks) {
    const x = Math.round(plot.valToPos(place, "x", true)), isLate = x > bbox.left + bbox.width / 2;
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    ctx.textAlign = isLate ? "right" : "left";
    ctx.fillText(words, x + (isLate ? -4 : 4), bbox.top + 2);
  }
  ctx.restore();
}

function drawLines(figure, form) {
  const place = figure.querySelector(".plot");
  place.replaceChildren();
  const series = form.series, names = Object.keys(series.y), every = Object.values(series.y).flat();
  if (every.every((value) => value === null)) {
    place.append("Nothing to draw: there are no values.");
    return null;
  }
  const paths = form.stepped ? uPlot.paths.stepped({ align: 1 }) : undefined;
  const options = {
    width: Math.max(280, place.clientWidth), height: 260,
    scales: { x: { time: false, distr: form.log_x ? 3 : 1, ...rangeOf(series.x, form.log_x) },
      y: { distr: form.log_y ? 3 : 1 } },
    axes: [axis(series.x, { label: form.x }), axis(every, { size: axisSize })],
    series: [{ label: form.x, value: valueWords },
      ...names.map((name, index) => ({ label: name, width: 1.6, paths, spanGaps: form.spans_gaps,
        points: pointsOf(form.stepped), value: valueWords, ...lineOf(index) }))],
    cursor: { drag: { x: true, y: false } },
    hooks: { draw: [(plot) => markPlaces(plot, form.marks)] },
  };
  place.append(make("div", { class: "unit" }, form.y));
  const plot = new uPlot(options, [series.x, ...names.map((name) => series.y[name])], place);
  place.classList.toggle("many", names.length > MOST_NAMED);
  return plot;
}

// Words on a part are black or white, whichever is further from its colour.
function wordColour(colour) {
  const [red, green, blue] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
  return 0.3 * red + 0.6 * green + 0.1 * blue < 120 ? "#fff" : "#111";
}

function drawParts(figure, { shares, colours }) {
  const place = figure.querySelector(".plot");
  const grid = make("div", { class: "parts" });
  for (const [policy, parts] of Object.entries(shares)) {
    const bar = make("div", { class: "bar", role: "img" });
    const words = [];
    for (const [part, colour] of Object.entries(colours)) {
      const percent = 100 * parts[part], text = percentText(parts[part]);
      words.push(`${part} ${text}`);
      const span = make("span", { title: `${part} ${text}` });
      span.style.width = `${percent}%`;
      if (colour !== null) span.style.background = colour;
      if (percent >= 12) span.textContent = text;
      if (colour !== null) span.style.color = wordColour(colour);
      bar.append(span);
    }
    bar.setAttribute("aria-label", `${policy}: ${words.join(", ")}`);
    grid.append(make("div", {}, policy), bar);
  }
  const key = make("div", { class: "key" });
  for (const [part, colour] of Object.entries(colours)) {
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
    if (chart.kind === "parts") drawParts(figure, chart);
    else plots.push([drawLines(figure, chart), figure.querySelector(".plot")]);
  }
  return plots.filter(([plot]) => plot !== null);
}
