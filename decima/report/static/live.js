// The live page: requests the status every second, shows it, and reports when there is no answer.

const EVERY_MS = 1000, SLOWEST_MS = 30000, PATIENCE_MS = 5000;
const KEPT_S = 300, LEAST_S = 60, GAP_S = 5;
const OTHERS = "#8c8c8c";
const WORDS = DATA; // of what is served: the jobs of a session, or the applications of a cluster
const KINDS = { "policy decides": "live", "stand-in": "starting", "caps only": "lapsed", nothing: "lapsed" };
const COLOURS = PALETTE.filter((one) => one !== OTHERS);

const HISTORY = []; // of the last KEPT_S seconds: when, all slots, and [key, slots held] by job
const colourOf = new Map(); // by job; free again once the job has left table and chart
const rowOf = new Map();
let delay = EVERY_MS, timer = 0, isAsking = false, isPaused = false, heardAt = null;

const place = (id) => document.getElementById(id);

function span(value) {
  if (value === null) return "";
  const s = Math.floor(value), two = (n) => String(n).padStart(2, "0");
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${two(s % 60)} s`;
  return `${Math.floor(s / 3600)} h ${two(Math.floor((s % 3600) / 60))} min`;
}

// Only what changes is written: a screen reader repeats it, and a selection would be lost.
function write(element, words) {
  if (element.textContent !== words) element.textContent = words;
}

function say(state, words) {
  document.documentElement.dataset.state = state;
  write(place("state"), words);
  place("state").classList.toggle("trouble", state === "gone" || state === "ended");
  place("news").classList.toggle("old", state === "gone" || state === "ended");
  place("again").hidden = state !== "gone";
}

function sayHow(status) {
  if (status.ended_because !== null) {
    const caps = status.state === "caps only" ? ", under the caps" : "";
    return say("ended", `The scheduler detached: ${status.ended_because}. Spark's own order is in force${caps}.`);
  }
  if (!status.is_attached) return say("waiting", "The scheduler is not attached.");
  if (status.heard_s !== null && status.heard_s > GAP_S) {
    return say("slow", `No report from Spark for ${span(status.heard_s)}.`);
  }
  if (status.state === null) return say("live", WORDS.live);
  const kind = status.mode === "shadow" ? "live" : KINDS[status.state];
  return say(kind, `${status.state[0].toUpperCase()}${status.state.slice(1)}: ${status.reason}.`);
}

function showFacts(status) {
  const facts = {
    policy: status.policy, mode: status.mode,
    [`${WORDS.slot}s`]: `${status.held} of ${status.slots} ${WORDS.held}`,
    [`${WORDS.job}s`]: `${status.jobs.length + status.jobs_left_out}, ${status.queue} ${WORDS.unserved}`,
    "waiting tasks": status.waiting_tasks.toLocaleString("en"),
    "decisions a second": status.decisions_per_s.toFixed(1),
    plans: status.plans.toLocaleString("en"),
    "news to plan": `${status.plan_ms_median.toFixed(1)} ms, p90 ${status.plan_ms_p90.toFixed(1)} ms`,
    fallbacks: String(status.fallbacks),
    ...(status.lapses === null ? {} : {
      lapses: String(status.lapses), starved: String(status.starved), "events lost": String(status.dropped_events),
    }),
    [WORDS.since]: span(status.uptime_s), ...(status.why === null ? {} : { "chosen because": status.why }),
  };
  if (status.prior_hits + status.prior_misses > 0) {
    facts["earlier runs found"] = `${status.prior_hits} of ${status.prior_hits + status.prior_misses} stages`;
  }
  if (status.last_fault !== null) facts["last fault"] = status.last_fault;
  const list = place("facts"), names = Object.keys(facts);
  if ([...list.querySelectorAll("dt")].map((one) => one.textContent).join() !== names.join()) {
    list.replaceChildren(...names.map((name) => make("div", {}, make("dt", {}, name), make("dd"))));
  }
  list.querySelectorAll("dd").forEach((one, index) => write(one, facts[names[index]]));
}

function showJobs(status) {
  const body = place("jobs").tBodies[0], keys = new Set(status.jobs.map((job) => job.key));
  for (const [key, row] of rowOf) {
    if (keys.has(key)) continue;
    row.remove();
    rowOf.delete(key);
  }
  status.jobs.forEach((job, index) => {
    if (!rowOf.has(job.key)) {
      const name = make("th", { scope: "row" }, make("i"), make("span"));
      rowOf.set(job.key, make("tr", {}, name, ...[1, 2, 3, 4, 5].map(() => make("td"))));
    }
    const row = rowOf.get(job.key), [name, ...cells] = row.cells;
    name.firstChild.style.background = colourOf.get(job.key) || "none";
    write(name.lastChild, job.name);
    name.title = job.key;
    const limit = job.limit === null ? "none" : String(job.limit);
    const words = [String(job.held), limit, job.waiting_tasks.toLocaleString("en"), span(job.unserved_s), span(job.age_s)];
    cells.forEach((cell, column) => write(cell, words[column]));
    if (body.rows[index] !== row) body.insertBefore(row, body.rows[index] || null);
  });
  const more = status.jobs_left_out > 0 ? `And ${status.jobs_left_out} more.` : "";
  write(place("more"), status.jobs.length === 0 ? `No ${WORDS.job} is ${WORDS.present}.` : more);
}

function remember(status) {
  const at = performance.now() / 1000;
  const held = status.jobs.filter((job) => job.held > 0).map((job) => [job.key, job.held]);
  const known = held.reduce((sum, [, slots]) => sum + slots, 0);
  if (status.held > known) held.push([null, status.held - known]);
  HISTORY.push({ at, slots: status.slots, held });
  while (HISTORY[0].at < at - KEPT_S) HISTORY.shift();
  const seen = new Set(status.jobs.map((job) => job.key));
  for (const one of HISTORY) for (const [key] of one.held) seen.add(key);
  for (const key of colourOf.keys()) if (!seen.has(key)) colourOf.delete(key);
  for (const [key] of held) {
    if (key === null || colourOf.has(key)) continue;
    const free = COLOURS.find((colour) => ![...colourOf.values()].includes(colour));
    colourOf.set(key, free || OTHERS);
  }
}

function draw() {
  const canvas = place("slots"), ratio = window.devicePixelRatio || 1;
  const width = (canvas.width = Math.max(1, Math.round(canvas.clientWidth * ratio)));
  const height = (canvas.height = Math.max(1, Math.round(canvas.clientHeight * ratio)));
  if (HISTORY.length === 0) return;
  const context = canvas.getContext("2d"), now = performance.now() / 1000;
  const long = Math.min(KEPT_S, Math.max(LEAST_S, now - HISTORY[0].at));
  const most = Math.max(1, ...HISTORY.map((one) => Math.max(one.slots, one.held.reduce((sum, [, n]) => sum + n, 0))));
  const x = (at) => width * (1 - (now - at) / long), y = (slots) => height - (slots / most) * (height - 4);
  HISTORY.forEach((one, index) => {
    const next = index + 1 < HISTORY.length ? HISTORY[index + 1].at : now;
    const left = Math.floor(x(one.at)), right = Math.ceil(x(Math.min(next, one.at + GAP_S)));
    let below = 0;
    for (const [key, slots] of one.held) {
      context.fillStyle = colourOf.get(key) || OTHERS;
      context.fillRect(left, y(below + slots), right - left, y(below) - y(below + slots));
      below += slots;
    }
    context.fillStyle = cssColour("--ink");
    context.fillRect(left, y(one.slots), right - left, Math.max(1, ratio));
  });
  const newest = HISTORY[HISTORY.length - 1], held = newest.held.reduce((sum, [, n]) => sum + n, 0);
  canvas.setAttribute("aria-label", `${held} of ${newest.slots} ${WORDS.slot}s held by ${newest.held.length} ${WORDS.job}s`);
  write(place("oldest"), `${span(long)} ago; top: ${most} ${WORDS.slot}s`);
}

function recolour() {
  draw();
}

function again(after) {
  clearTimeout(timer);
  timer = setTimeout(ask, after);
}

async function answer() {
  try {
    const found = await fetch("status.json", { cache: "no-store", signal: AbortSignal.timeout(PATIENCE_MS) });
    return found.ok ? await found.json() : null;
  } catch {
    return null;
  }
}

async function ask() {
  if (isAsking || isPaused) return;
  isAsking = true;
  const status = await answer();
  isAsking = false;
  if (isPaused) return;
  if (status === null) {
    delay = Math.min(2 * delay, SLOWEST_MS);
    const last = heardAt === null ? "" : ` What is below is of ${heardAt}.`;
    say("gone", `No answer: ${WORDS.gone}.${last}`);
  } else {
    delay = EVERY_MS;
    heardAt = new Date().toLocaleTimeString();
    remember(status);
    showFacts(status);
    showJobs(status);
    sayHow(status);
    draw();
    document.title = `${status.held} of ${status.slots} ${WORDS.slot}s: live scheduler`;
  }
  again(delay);
}

place("pause").addEventListener("click", () => {
  isPaused = !isPaused;
  place("pause").setAttribute("aria-pressed", String(isPaused));
  write(place("pause"), isPaused ? "Go on" : "Pause");
  if (isPaused) say("paused", heardAt === null ? "Paused." : `Paused at ${heardAt}.`);
  else ask();
});
place("again").addEventListener("click", ask);
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) ask();
});
window.addEventListener("resize", draw);
ask();
