"use strict";
// What all parts of the page share: colours, words, and the data.

// Okabe and Ito's colours, which the colour-blind tell apart, and dashes from the sixth line on.
const PALETTE = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00",
  "#56b4e9", "#a0522d", "#7f7fd5", "#8c8c8c", "#4b9a2e"];

function lineOf(index) {
  const round = Math.floor(index / PALETTE.length);
  const dash = round === 0 ? (index < 5 ? undefined : [8, 3]) : [2, 2 + round];
  return { stroke: PALETTE[index % PALETTE.length], dash };
}

function cssColour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function seconds(value) {
  const s = Math.abs(value);
  if (s >= 1000) return Math.round(value).toLocaleString("en") + " s";
  return value.toFixed(s >= 100 ? 0 : s >= 10 ? 1 : s >= 1 ? 2 : 3) + " s";
}

// "1 job", "2,000 jobs".
function counted(number, word) {
  return `${number.toLocaleString("en")} ${word}${number === 1 ? "" : "s"}`;
}

function percentText(share) {
  return `${(100 * share).toFixed(1)} %`;
}

// "stage 7", whether or not the name says so itself.
function stageWords(name) {
  return /^stage\b/i.test(name) ? name : `stage ${name}`;
}

// Columns of 32-bit numbers, deflated (decima/report/timelines.py `pack`), back to typed arrays.
async function unpacked(run) {
  const text = atob(run.packed);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const raw = new Uint32Array(await new Response(stream).arrayBuffer());
  const lengths = [run.executors + 1, run.rows, run.rows, run.rows];
  if (run.merged) lengths.push(run.rows);
  const columns = [];
  let at = 0;
  for (const length of lengths) columns.push(raw.subarray(at, (at += length)));
  const [first, step, duration, stage, count] = columns;
  const start = new Float64Array(run.rows), finish = new Float64Array(run.rows);
  for (let row = 0; row < run.executors; row++) {
    let time = 0;
    for (let i = first[row]; i < first[row + 1]; i++) {
      time += step[i];
      start[i] = time * run.unit_ms;
      finish[i] = (time + duration[i]) * run.unit_ms;
    }
  }
  Object.assign(run.stages, stageSpans(run, start, finish, stage, count));
  return { first, start, finish, stage, count };
}

// When each stage of a run had tasks, and how many.
function stageSpans(run, start, finish, stage, count) {
  const size = run.stages.job.length, tasks = new Uint32Array(size);
  const start_ms = new Float64Array(size).fill(Infinity), finish_ms = new Float64Array(size);
  for (let i = 0; i < stage.length; i++) {
    const at = stage[i];
    start_ms[at] = Math.min(start_ms[at], start[i]);
    finish_ms[at] = Math.max(finish_ms[at], finish[i]);
    tasks[at] += count ? count[i] : 1;
  }
  return { start_ms, finish_ms, tasks };
}

// The stages of a job and their parents; undefined where the trace was not at hand.
function graphOf(job) {
  return job.critical ? DATA.graphs[job.name] : undefined;
}

const DATA = JSON.parse(document.getElementById("data").textContent);
