"""Large reports: time to make and to open, size, smoothness.

    python -m benchmarks.report_speed [--tasks 125000] [--policies 10] [--jobs 200]

The figures of the evaluation are drawn at random; the tasks follow each other on 50 executors. The
page is opened in headless Chromium: first paint, and frames a second while the timelines are moved
and zoomed. Targets for 10 policies, 20 sequences of 200 jobs and two timelines: made in 10 s, 8 MB,
first paint in 1.5 s, 30 frames a second.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from decima.evaluation.report import FIGURES, FORMAT, VERSION
from decima.report import Timelines, comparison_sections, results_of, write_page
from tests.browser import chromium, open_page, resize

EXECUTORS = 50
_MOVES = """
const done = arguments[arguments.length - 1], times = [];
let count = 0;
function step(now) {
  times.push(now);
  if (count++ >= 60) return done(times);
  const span = VIEW.to - VIEW.from;
  if (count < 30) zoom(0.9, 0.4); else look(VIEW.from + span * 0.02, VIEW.to + span * 0.02);
  requestAnimationFrame(step);
}
requestAnimationFrame(step);
"""


def results_json(policies: int, sequences: int, jobs: int) -> dict[str, Any]:
    """An evaluation's JSON with random figures."""
    rng = np.random.default_rng(1)
    names = ["strict_fair", *(f"policy_{number}" for number in range(1, policies))]
    figure = {"per_sequence": rng.uniform(50, 60, sequences).tolist()}
    shares = {f"{part}_executor_s": 100.0 for part in ("busy", "moving", "idle", "first")}
    return {
        "format": FORMAT,
        "version": VERSION,
        "config": {
            "trace": "tpch", "policies": names, "executors": EXECUTORS, "interarrival_s": 25.0,
            "arrivals": "poisson", "sequences": sequences, "seed": 0, "protocol": "executors",
            "moving_delay_s": 2.0, "estimates": "exact",
        },
        "sequences": [
            {
                "name": [f"q{job % 22}" for job in range(jobs)],
                "arrival_s": np.sort(rng.uniform(0, 5000, jobs)).round(3).tolist(),
                "work_s": rng.lognormal(6, 1, jobs).round(3).tolist(),
            }
            for _ in range(sequences)
        ],
        "policies": {
            name: {
                **dict.fromkeys(FIGURES, figure),
                **shares,
                "unfinished": 0,
                "not_arrived": 0,
                "jct_s": rng.lognormal(4, 1, (sequences, jobs)).round(3).tolist(),
            }
            for name in names
        },
    }  # fmt: skip


def timeline(policies: list[str], tasks: int, jobs: int) -> pa.Table:
    """Tasks of two policies that follow each other on their executors."""
    rng = np.random.default_rng(2)
    each = tasks // EXECUTORS
    tables = []
    for name in policies:
        gaps_ms = rng.exponential(1500, (EXECUTORS, each)) + 5
        ends_ms = gaps_ms.cumsum(axis=1)
        job = np.sort(rng.integers(jobs, size=(EXECUTORS, each)), axis=1).ravel()
        tables.append(
            pa.table(
                {
                    "policy": pa.repeat(name, len(job)),
                    "sequence": np.zeros(len(job), np.int32),
                    "job": job,
                    "name": pa.array([f"q{number % 22}" for number in job]),
                    "stage": rng.integers(8, size=len(job)),
                    "task": np.arange(len(job)),
                    "executor": np.repeat(np.arange(EXECUTORS), each),
                    "start_ms": (ends_ms - gaps_ms).ravel(),
                    "finish_ms": (ends_ms - 4).ravel(),
                }
            )
        )
    return pa.concat_tables(tables)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tasks", type=int, default=125_000, help="of each timeline")
    parser.add_argument("--policies", type=int, default=10)
    parser.add_argument("--sequences", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=200)
    arguments = parser.parse_args()
    content = results_json(arguments.policies, arguments.sequences, arguments.jobs)
    table = timeline(content["config"]["policies"][:2], arguments.tasks, arguments.jobs)
    with tempfile.TemporaryDirectory() as folder, chromium() as driver:
        path = Path(folder) / "report.html"
        began, began_cpu = time.perf_counter(), time.process_time()
        results = [results_of(content, "benchmark")]
        sections = comparison_sections(results, Timelines(table, None))
        write_page(path, sections, title="Benchmark", command="")
        spent_s, cpu_s = time.perf_counter() - began, time.process_time() - began_cpu
        print(f"made in {spent_s:.1f} s ({cpu_s:.1f} CPU s), {path.stat().st_size / 1e6:.1f} MB")
        resize(driver, 1280)
        open_page(driver, path)
        paint_ms = driver.execute_script(
            "return performance.getEntriesByType('paint').at(-1).startTime"
        )
        ready_ms = driver.execute_script("return performance.now()")
        frames_ms = np.diff(driver.execute_async_script(_MOVES))
        print(f"first contentful paint {paint_ms:.0f} ms, all drawn by {ready_ms:.0f} ms")
        print(
            f"{1000 / frames_ms.mean():.0f} frames a second, slowest frame {frames_ms.max():.0f} ms"
        )


if __name__ == "__main__":
    main()
