// The graph of a job under each policy: when its stages ran, and which of them decided its end.

const SVG = "http://www.w3.org/2000/svg";
const NODE = { width: 150, height: 46, across: 34, down: 14 };

function svg(tag, attributes, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

// Column of each stage: the longest way to it from a stage without parents.
function levels(parents) {
  const found = new Array(parents.length).fill(-1);
  const level = (stage) => {
    if (found[stage] < 0) found[stage] = Math.max(-1, ...parents[stage].map(level)) + 1;
    return found[stage];
  };
  parents.forEach((_, stage) => level(stage));
  return found;
}

function shortened(text, length) {
  return text.length <= length ? text : `${text.slice(0, length - 1)}…`;
}

function drawGraph(run, job) {
  const { parents: edges, stage_names } = graphOf(job), column = levels(edges), filled = [], place = [];
  column.forEach((at, stage) => {
    filled[at] = (filled[at] || 0) + 1;
    place[stage] = { x: 8 + at * (NODE.width + NODE.across), y: 8 + (filled[at] - 1) * (NODE.height + NODE.down) };
  });
  const width = 16 + filled.length * (NODE.width + NODE.across) - NODE.across;
  const height = 16 + Math.max(...filled) * (NODE.height + NODE.down) - NODE.down;
  const root = svg("svg", { width, height, role: "img", "aria-label": `Stages of ${job.name} under ${run.policy}` });
  const critical = new Set(job.critical);
  edges.forEach((parents, stage) => {
    for (const parent of parents) {
      const a = place[parent], b = place[stage], x1 = a.x + NODE.width, y1 = a.y + NODE.height / 2;
      const y2 = b.y + NODE.height / 2, bend = (b.x - x1) / 2, path = job.critical;
      const isCritical = path.indexOf(stage) > 0 && path[path.indexOf(stage) - 1] === parent;
      root.append(svg("path", { d: `M${x1} ${y1}C${x1 + bend} ${y1} ${b.x - bend} ${y2} ${b.x} ${y2}`,
        class: isCritical ? "critical" : "" }));
    }
  });
  const row = new Map();
  for (let i = job.first; i < job.first + job.count; i++) row.set(run.stages.number[i], i);
  place.forEach(({ x, y }, stage) => {
    const at = row.get(stage), ran = at !== undefined;
    const when = ran ? `${seconds(run.stages.start_ms[at] / 1000)} – ${seconds(run.stages.finish_ms[at] / 1000)}` : "did not run";
    const group = svg("g", { class: critical.has(stage) ? "critical" : "" },
      svg("title", {}, `${stage_names[stage]}: ${ran ? run.stages.tasks[at] : 0} tasks, ${when}`),
      svg("rect", { x, y, width: NODE.width, height: NODE.height, rx: 5 }),
      svg("text", { x: x + 8, y: y + 19 }, shortened(stage_names[stage], 14) + (ran ? ` · ${run.stages.tasks[at]} tasks` : "")),
      svg("text", { x: x + 8, y: y + 36, class: "quiet" }, when));
    root.append(group);
  });
  return root;
}

function showGraphs(number) {
  const words = document.getElementById("selection"), place = document.getElementById("graphs");
  place.replaceChildren();
  if (number === null) {
    words.textContent = "No job is chosen.";
    return;
  }
  const found = CHARTS.map((chart) => [chart.run, chart.run.jobs.find((job) => job.number === number)]);
  const spans = [];
  for (const [run, job] of found) {
    if (job === undefined) {
      spans.push(`${run.policy}: no task of it`);
      continue;
    }
    const rows = [...Array(job.count).keys()].map((i) => i + job.first);
    const start = Math.min(...rows.map((i) => run.stages.start_ms[i]));
    const finish = Math.max(...rows.map((i) => run.stages.finish_ms[i]));
    spans.push(`${run.policy}: ${seconds(start / 1000)} to ${seconds(finish / 1000)}`);
    if (!graphOf(job)) continue;
    const graph = make("div", { class: "graph" });
    graph.append(drawGraph(run, job));
    place.append(make("figure", {}, make("figcaption", {}, `${job.name} under ${run.policy}; the path that decided its end is strong`), graph));
  }
  const name = found.map(([, job]) => job).find((job) => job !== undefined);
  words.textContent = `Job ${number}, ${name ? name.name : ""}. First task to last task: ${spans.join("; ")}.`;
}
