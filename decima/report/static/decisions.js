// Decisions: a slider over the plans of a learned policy with probabilities and reasons; a line in the timelines.

const MARK = { time_s: null, sequence: null };

function choiceWords(choice) {
  if (choice === null) return "leaves the rest idle";
  const size = choice.memory_gb === null ? "" : ` of ${choice.memory_gb} GB`;
  return `job ${choice.job}, ${stageWords(choice.stage)}, up to ${counted(choice.limit, "executor")}${size}`;
}

function tableOf(headings, rows) {
  const head = make("tr", {}, ...headings.map((one) => make("th", { scope: "col" }, one)));
  const body = rows.map((cells) => make("tr", {}, ...cells.map((cell, at) =>
    (at === 0 ? make("th", { scope: "row" }, cell) : make("td", {}, cell)))));
  return make("div", { class: "scroll" }, make("table", {}, make("thead", {}, head), make("tbody", {}, ...body)));
}

// Executor-seconds, in a column that says so.
function workWords(value) {
  return value.toLocaleString("en", { maximumFractionDigits: value < 100 ? 1 : 0 });
}

function likelyTable(entry) {
  const rows = entry.likely.map((one) => [`job ${one.job}: ${one.name}`, one.stage, percentText(one.p), String(one.place),
    String(one.wanted), seconds(one.task_s), seconds(one.path_s), workWords(one.left_s), String(one.held), seconds(one.age_s)]);
  rows.push(["leave the rest idle", "", percentText(entry.end.p), String(entry.end.place), "", "", "", "", "", ""]);
  return tableOf(["job", "stage", "comes first", "in the plan", "tasks waiting", "a task", "path to the end",
    "work left, executor-seconds", "holds", "age"], rows);
}

function reasonBars(entry) {
  const most = Math.max(...entry.reasons.map(([, weight]) => Math.abs(weight)));
  const grid = make("div", { class: "parts" });
  for (const [name, weight] of entry.reasons) {
    const bar = make("span", { class: "weight" }, `${weight > 0 ? "+" : ""}${weight.toFixed(2)}`);
    bar.style.width = `${(100 * Math.abs(weight)) / most}%`;
    bar.style.background = weight > 0 ? "#0072b2" : "#d55e00";
    bar.style.color = "#fff";
    grid.append(make("div", {}, name), make("div", { class: "bar" }, bar));
  }
  return grid;
}

function showDecision(index) {
  const entry = DATA.decisions[index], place = document.getElementById("decision-shown");
  const heading = make("p", {}, make("b", {}, `Decision ${entry.number} at ${seconds(entry.time_s)}: `),
    `${counted(entry.jobs, "job")} in the system, ${counted(entry.offer, "executor")} on offer, ` +
    `${counted(entry.stages, "stage")} to choose from. `,
    make("b", {}, choiceWords(entry.taken)));
  const others = Object.entries(entry.others).map(([name, choice]) => [name, choiceWords(choice),
    JSON.stringify(choice) === JSON.stringify(entry.taken) ? "the same" : ""]);
  place.replaceChildren(heading, likelyTable(entry));
  if (others.length) place.append(make("h3", {}, "In the same place"), tableOf(["policy", "first choice", ""], others));
  if (entry.words.length) {
    place.append(make("h3", {}, "Why"), ...entry.words.map((words) => make("p", {}, words)));
  }
  if (entry.reasons.length) {
    place.append(make("p", { class: "note" }, "Log-probability of the choice, less that with the reason's inputs at their " +
      "mean over all choices. Weights need not add up."), reasonBars(entry));
  }
  MARK.time_s = entry.time_s;
  if (CHARTS.length) redraw();
}

function startDecisions() {
  const entries = DATA.decisions;
  if (!entries.length) return;
  const slider = document.getElementById("decision"), marks = document.getElementById("decision-marks");
  const told = entries.flatMap((entry, index) => (entry.words.length ? [index] : []));
  for (const index of told) marks.append(make("option", { value: index }));
  const go = (index) => {
    slider.value = String(Math.min(entries.length - 1, Math.max(0, index)));
    showDecision(Number(slider.value));
  };
  slider.addEventListener("input", () => showDecision(Number(slider.value)));
  document.getElementById("decision-before").addEventListener("click", () => go(Number(slider.value) - 1));
  document.getElementById("decision-after").addEventListener("click", () => go(Number(slider.value) + 1));
  document.getElementById("decision-told").addEventListener("click", () => {
    const next = told.find((index) => index > Number(slider.value));
    go(next === undefined ? told[0] : next);
  });
  MARK.sequence = Number(document.getElementById("decision-shown").dataset.sequence);
  document.addEventListener("chosen-time", (event) => {
    if (event.detail.sequence !== MARK.sequence) return;
    const after = entries.findIndex((entry) => entry.time_s >= event.detail.time_s);
    go(after < 0 ? entries.length - 1 : after);
  });
  go(told.length ? told[0] : 0);
}
