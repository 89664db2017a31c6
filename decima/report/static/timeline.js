// Two timelines, one axis: what is seen, zoomed and chosen in one is so in both. Which runs they show
// is chosen: one sequence, and a policy for each.

// Tasks to pixels. A row of pixels is worked out once for each executor and copied to its height; a
// pixel takes the task that runs at its left edge, or the first that starts inside it. So a frame
// costs at most a binary search a pixel, however many tasks there are.

// The first index in [low, high) whose value is above `limit`.
function above(values, limit, low, high) {
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] > limit) high = middle;
    else low = middle + 1;
  }
  return low;
}

// Index of the task in a row that covers the pixel from `from` to `to` ms; -1 if there is none.
function taskAt(tasks, row, from, to) {
  const begin = tasks.first[row], end = tasks.first[row + 1];
  const next = above(tasks.start, from, begin, end);
  if (next > begin && tasks.finish[next - 1] > from) return next - 1;
  return next < end && tasks.start[next] < to ? next : -1;
}

function paint(image, tasks, view, rowHeight, colourOf, gap) {
  const { width, height } = image, out = new Uint32Array(image.data.buffer);
  out.fill(0);
  const perPixel = (view.to - view.from) / width, rows = tasks.first.length - 1;
  for (let row = 0; row < rows; row++) {
    const top = row * rowHeight * width;
    const begin = tasks.first[row], end = tasks.first[row + 1];
    let x = 0, i = above(tasks.start, view.from, begin, end);
    if (i > begin && tasks.finish[i - 1] > view.from) i--;
    while (x < width && i < end) {
      const from = view.from + x * perPixel;
      if (tasks.finish[i] <= from) {
        // Far behind: jump, do not walk, over what lies under one pixel.
        i = above(tasks.start, from, i + 1, end);
        if (tasks.finish[i - 1] > from) i--;
        if (i >= end) break;
      }
      if (tasks.start[i] >= view.to) break;
      const left = Math.max(x, Math.floor((tasks.start[i] - view.from) / perPixel));
      const right = Math.min(width, Math.max(left + 1, Math.ceil((tasks.finish[i] - view.from) / perPixel)));
      out.fill(colourOf(tasks.stage[i]), top + left, top + right);
      // A line between tasks, where they are wide enough to be told apart.
      if (right - left > 3 && right < width) out[top + right - 1] = 0;
      x = right;
      i++;
    }
    const last = rowHeight - (rowHeight > 3 ? gap : 0);
    for (let line = 1; line < last; line++) {
      const at = top + line * width;
      if (at + width <= out.length) out.copyWithin(at, top, top + width);
    }
  }
}

const VIEW = { from: 0, to: 1 };
const CHOSEN = { job: null };
const CHARTS = [];
let whole = 1, isDrawing = false;

// ABGR as a little-endian canvas wants it. Neighbouring jobs differ in hue and in lightness.
function jobColour(number, alpha) {
  const hue = (number * 137.508) % 360, light = [0.42, 0.58, 0.72][number % 3], strong = 0.6;
  const part = (shift) => {
    const k = (shift + hue / 30) % 12, a = strong * Math.min(light, 1 - light);
    return Math.round(255 * (light - a * Math.max(-1, Math.min(k - 3, 9 - k, 1))));
  };
  return ((alpha << 24) | (part(4) << 16) | (part(8) << 8) | part(0)) >>> 0;
}

class Gantt {
  constructor(figure, select) {
    Object.assign(this, { figure, select, canvas: figure.querySelector("canvas") });
    this.rows = figure.querySelector(".rows");
    this.context = this.canvas.getContext("2d");
  }

  async show(run) {
    this.wanted = run;
    const tasks = await unpacked(run);
    if (this.wanted !== run) return; // another was chosen meanwhile
    Object.assign(this, { run, tasks, colours: new Uint32Array(run.stages.job.length) });
    const blocks = run.blocks === null ? ""
      : `, drawn as ${counted(run.blocks, "block")} of tasks of one stage that follow each other`;
    this.figure.querySelector("figcaption").replaceChildren(make("b", {}, run.policy),
      `, sequence ${run.sequence}: ${counted(run.tasks, "task")} on ${counted(run.executors, run.row)}${blocks}`);
    this.canvas.setAttribute("aria-label", `Tasks of ${run.policy} on ${counted(run.executors, run.row)} over time`);
    this.resize();
  }

  resize() {
    const ratio = window.devicePixelRatio || 1, rows = this.run.executors;
    const css = rows <= 20 ? 15 : rows <= 60 ? 6 : rows <= 130 ? 3 : rows <= 260 ? 2 : 1;
    this.rowHeight = Math.max(1, Math.round(css * ratio));
    this.canvas.width = Math.max(200, Math.round(this.canvas.clientWidth * ratio));
    this.canvas.height = this.rowHeight * rows;
    this.canvas.style.height = `${this.canvas.height / ratio}px`;
    this.image = this.context.createImageData(this.canvas.width, this.canvas.height);
    this.labelRows(this.rowHeight / ratio);
  }

  // The number of each row, or of as many as have room.
  labelRows(height) {
    const step = WHOLE_STEPS.find((one) => one * height >= 13);
    this.rows.replaceChildren();
    for (let row = 0; row < this.run.executors; row += step) {
      const label = make("span", {}, row === 0 ? `${this.run.row} 0` : String(row));
      label.style.top = `${(row + 0.5) * height}px`;
      this.rows.append(label);
    }
  }

  draw() {
    const jobs = this.run.stages.job;
    for (let stage = 0; stage < jobs.length; stage++) {
      const isQuiet = CHOSEN.job !== null && jobs[stage] !== CHOSEN.job;
      this.colours[stage] = jobColour(jobs[stage], isQuiet ? 40 : 255);
    }
    paint(this.image, this.tasks, VIEW, this.rowHeight, (stage) => this.colours[stage], 1);
    this.context.putImageData(this.image, 0, 0);
    if (MARK.time_s === null || MARK.sequence !== this.run.sequence) return;
    const x = ((1000 * MARK.time_s - VIEW.from) / (VIEW.to - VIEW.from)) * this.canvas.width;
    this.context.fillStyle = cssColour("--ink");
    this.context.fillRect(Math.round(x), 0, Math.max(1, Math.round(window.devicePixelRatio || 1)), this.canvas.height);
  }

  // The task under a point of the page, or null.
  at(event) {
    const box = this.canvas.getBoundingClientRect();
    const row = Math.floor(((event.clientY - box.top) / box.height) * this.run.executors);
    if (row < 0 || row >= this.run.executors) return null;
    const perPixel = (VIEW.to - VIEW.from) / box.width, from = VIEW.from + (event.clientX - box.left) * perPixel;
    const index = taskAt(this.tasks, row, from, from + perPixel);
    return index < 0 ? null : this.describe(row, index);
  }

  describe(row, index) {
    const { run, tasks } = this, stage = tasks.stage[index], number = run.stages.job[stage];
    const job = run.jobs.find((one) => one.number === number);
    const names = graphOf(job)?.stage_names, inJob = run.stages.number[stage];
    return {
      job: number, name: job.name, stage: names ? names[inJob] : String(inJob), executor: row, row: run.row,
      start_ms: tasks.start[index], finish_ms: tasks.finish[index],
      count: tasks.count ? tasks.count[index] : 1,
    };
  }
}

function redraw() {
  if (isDrawing) return;
  isDrawing = true;
  requestAnimationFrame(() => {
    isDrawing = false;
    for (const chart of CHARTS) chart.draw();
    drawAxis();
  });
}

function drawAxis() {
  const place = document.getElementById("axis"), span = VIEW.to - VIEW.from;
  const rough = span / 8, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough);
  place.replaceChildren();
  for (let at = Math.ceil(VIEW.from / step) * step; at <= VIEW.to; at += step) {
    const share = (at - VIEW.from) / span;
    if (share < 0.03 || share > 0.97) continue;
    const label = make("span", {}, seconds(at / 1000));
    label.style.left = `${100 * share}%`;
    place.append(label);
  }
}

function look(from, to) {
  const least = whole / 1e6, span = Math.min(whole, Math.max(least, to - from));
  VIEW.from = Math.min(Math.max(0, from), whole - span);
  VIEW.to = VIEW.from + span;
  redraw();
}

function zoom(factor, share = 0.5) {
  const span = VIEW.to - VIEW.from, at = VIEW.from + share * span;
  look(at - share * span * factor, at + (1 - share) * span * factor);
}

function choose(job) {
  CHOSEN.job = job;
  redraw();
  showGraphs(job);
  for (const button of document.querySelectorAll("#jobs button"))
    button.setAttribute("aria-pressed", String(Number(button.dataset.job) === job));
}

// The jobs of both charts with their colours; a click chooses one.
function listJobs() {
  const names = new Map(CHARTS.flatMap((chart) => chart.run.jobs.map((job) => [job.number, job.name])));
  const buttons = [...names].sort(([a], [b]) => a - b).map(([number, name]) => {
    const patch = make("i"), button = make("button", { type: "button", "data-job": number, "aria-pressed": "false" });
    const [red, green, blue] = [0, 8, 16].map((shift) => (jobColour(number, 255) >>> shift) & 255);
    patch.style.background = `rgb(${red}, ${green}, ${blue})`;
    button.append(patch, `${number} ${name}`);
    button.addEventListener("click", () => choose(CHOSEN.job === number ? null : number));
    return button;
  });
  document.getElementById("jobs").replaceChildren(...buttons);
}

function neighbour(step) {
  const numbers = CHARTS[0].run.jobs.map((job) => job.number).sort((a, b) => a - b);
  const at = numbers.indexOf(CHOSEN.job);
  choose(numbers[at < 0 ? (step > 0 ? 0 : numbers.length - 1) : (at + step + numbers.length) % numbers.length]);
}

const KEYS = {
  ArrowLeft: () => look(VIEW.from - (VIEW.to - VIEW.from) / 10, VIEW.to - (VIEW.to - VIEW.from) / 10),
  ArrowRight: () => look(VIEW.from + (VIEW.to - VIEW.from) / 10, VIEW.to + (VIEW.to - VIEW.from) / 10),
  "+": () => zoom(0.7), "=": () => zoom(0.7), "-": () => zoom(1 / 0.7), 0: () => look(0, whole),
  n: () => neighbour(1), p: () => neighbour(-1), Escape: () => choose(null),
};

function listen(chart) {
  const canvas = chart.canvas, tip = document.getElementById("tip");
  let held = null;
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const box = canvas.getBoundingClientRect();
    zoom(event.deltaY > 0 ? 1.25 : 0.8, (event.clientX - box.left) / box.width);
  }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => {
    held = { x: event.clientX, from: VIEW.from, to: VIEW.to, moved: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (held !== null && (held.moved || Math.abs(event.clientX - held.x) > 3)) {
      held.moved = true;
      const shift = ((event.clientX - held.x) / canvas.clientWidth) * (held.to - held.from);
      look(held.from - shift, held.to - shift);
    }
    showTip(tip, chart.at(event), event);
  });
  canvas.addEventListener("pointerup", (event) => {
    if (held !== null && !held.moved) {
      const task = chart.at(event), box = canvas.getBoundingClientRect();
      const time_ms = VIEW.from + ((event.clientX - box.left) / box.width) * (VIEW.to - VIEW.from);
      const detail = { time_s: time_ms / 1000, sequence: chart.run.sequence };
      document.dispatchEvent(new CustomEvent("chosen-time", { detail }));
      choose(task === null || task.job === CHOSEN.job ? null : task.job);
    }
    held = null;
  });
  canvas.addEventListener("pointercancel", () => { held = null; });
  canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
  canvas.addEventListener("dblclick", () => look(0, whole));
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in KEYS)) return;
    event.preventDefault();
    KEYS[event.key]();
  });
}

function showTip(tip, task, event) {
  tip.hidden = task === null;
  if (task === null) return;
  const tasks = task.count > 1 ? `${task.count} tasks of ` : "";
  tip.textContent = `job ${task.job}: ${task.name}\n${tasks}${stageWords(task.stage)}\n${task.row} ${task.executor}\n` +
    `${seconds(task.start_ms / 1000)} to ${seconds(task.finish_ms / 1000)} (${seconds((task.finish_ms - task.start_ms) / 1000)})`;
  const left = Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 8);
  const low = event.clientY + 16, isLow = low + tip.offsetHeight > window.innerHeight - 8;
  tip.style.left = `${Math.max(4, left)}px`;
  tip.style.top = `${isLow ? event.clientY - tip.offsetHeight - 12 : low}px`;
}

function fill(select, values, chosen) {
  select.replaceChildren(...values.map((value) => make("option", { value }, String(value))));
  select.selectedIndex = Math.max(0, values.indexOf(chosen));
}

// What is chosen, in the same view as before where that was of a part.
async function showChosen(isWhole) {
  const sequence = Number(document.getElementById("sequence").value);
  await Promise.all(CHARTS.map((chart) => chart.show(DATA.timelines.find(
    (run) => run.sequence === sequence && run.policy === chart.select.value))));
  whole = Math.max(...CHARTS.map((chart) => chart.run.end_ms));
  listJobs();
  if (isWhole) look(0, whole);
  else look(VIEW.from, VIEW.to);
}

// The policies of a sequence; each chart keeps its own where it is there.
function offerPolicies(sequence) {
  const names = DATA.timelines.filter((run) => run.sequence === sequence).map((run) => run.policy);
  CHARTS.forEach((chart, index) => {
    const kept = chart.select.value;
    fill(chart.select, names, names.includes(kept) ? kept : names[Math.min(index, names.length - 1)]);
  });
}

async function startTimelines() {
  const selects = [...document.querySelectorAll("select.policy")], sequence = document.getElementById("sequence");
  document.querySelectorAll("figure.gantt").forEach((figure, index) => CHARTS.push(new Gantt(figure, selects[index])));
  if (CHARTS.length === 0) return;
  fill(sequence, [...new Set(DATA.timelines.map((run) => run.sequence))], DATA.timelines[0].sequence);
  offerPolicies(DATA.timelines[0].sequence);
  await showChosen(true);
  CHARTS.forEach(listen);
  sequence.addEventListener("change", () => {
    offerPolicies(Number(sequence.value));
    showChosen(true).then(() => choose(null));
  });
  for (const select of selects) {
    select.addEventListener("change", () => showChosen(VIEW.to - VIEW.from >= whole).then(() => choose(CHOSEN.job)));
  }
}
