"""Comparison of `protocol="decima-sim"` with decima-sim's runs; exits with 1 on a mismatch.

    python -m benchmarks.golden FILE...

A file holds jobs and runs recorded on decima-sim's own environment (deterministic durations): for
each run the settings, every completion time, the total reward, and hashes over all decisions and
all tasks. Everything recorded is compared.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.golden_policies import POLICIES
from spark_sim import Cluster, Protocol, Simulator, Status
from spark_sim.tables import NONE
from traces.arrays import TraceArrays, to_arrays
from traces.model import Job, LevelDurations, Stage
from traces.trace import Trace

Json = dict[str, Any]


def load_jobs(jobs: Sequence[Json]) -> tuple[TraceArrays, np.ndarray[Any, np.dtype[np.float64]]]:
    """The file's jobs as a trace with one job for each arrival."""
    rows = []
    for number, job in enumerate(jobs):
        parents: list[list[int]] = [[] for _ in job["stages"]]
        for parent, child in job["edges"]:
            parents[child].append(parent)
        stages = tuple(
            Stage(str(index), stage["num_tasks"], tuple(parents[index]), (_durations(stage),))
            for index, stage in enumerate(job["stages"])
        )
        rows.append(Job(f"{number}-{job['name']}", stages))
    arrival_ms = np.array([job["arrival_ms"] for job in jobs], np.float64)
    return to_arrays(Trace("golden", tuple(rows))), arrival_ms


def _durations(stage: Json) -> LevelDurations:
    fresh = [] if stage["fresh_ms"] is None else [stage["fresh_ms"]]
    return LevelDurations.of(
        5, fresh_ms=fresh, first_ms=[stage["first_ms"]], rest_ms=[stage["rest_ms"]]
    )


def number(value: float) -> int | float:
    """Format a number like Python in the recording: times are whole milliseconds there."""
    return int(value) if float(value).is_integer() else float(value)


def replay(
    trace: TraceArrays, arrival_ms: np.ndarray[Any, np.dtype[np.float64]], settings: Json
) -> Json:
    """Run one setting and report it in the recording's form."""
    cluster = Cluster(
        num_executors=settings["num_executors"],
        moving_delay_ms=settings["moving_delay_ms"],
        warmup_delay_ms=settings["warmup_delay_ms"],
        protocol=Protocol.DECIMA_SIM,
    )
    order = np.argsort(arrival_ms, kind="stable").astype(np.int32)
    simulator = Simulator(trace, cluster, arrival_ms[order], order, timeline=True)
    first_stage = simulator.state.jobs["first_stage"]
    decide = POLICIES[settings["policy"]]()
    decisions: list[list[Any]] = []
    while simulator.status is Status.DECIDE:
        observation = simulator.observation()
        stage, count = decide(observation)
        granted = count if stage == NONE else min(count, observation.demand(stage))
        job = NONE if stage == NONE else int(observation.stages["job"][stage])
        where = [NONE, NONE] if stage == NONE else [int(order[job]), int(stage - first_stage[job])]
        source = NONE if observation.source_job == NONE else int(order[observation.source_job])
        decisions.append(
            [number(observation.time_ms), source, observation.on_offer, where, count, granted]
        )
        simulator.commit(stage, count)
    return _report(simulator, order, decisions, settings["reward_scale"])


def _report(
    simulator: Simulator,
    order: np.ndarray[Any, np.dtype[np.int32]],
    decisions: list[list[Any]],
    reward_scale: float,
) -> Json:
    jobs = simulator.state.jobs
    completion: list[int | float | None] = [None] * len(order)
    for row, place in zip(jobs, order, strict=True):
        if not math.isnan(row["completion_ms"]):
            completion[place] = number(row["completion_ms"])
    tasks = sorted(
        [
            int(order[task["job"]]),
            int(task["stage"] - jobs["first_stage"][task["job"]]),
            int(task["task"]),
            int(task["executor"]),
            number(task["start_ms"]),
            number(task["finish_ms"]),
        ]
        for task in simulator.timeline()
    )
    deadlock = simulator.status is Status.DEADLOCK
    jct_ms = jobs["completion_ms"] - jobs["arrival_ms"]
    return {
        "deadlock": deadlock,
        "completion_ms": completion,
        "makespan_ms": None if deadlock else number(jobs["completion_ms"].max()),
        "avg_jct_ms": None if deadlock else float(jct_ms.mean()),
        "total_reward": None if deadlock else -float(jct_ms.sum()) / reward_scale,
        "num_decisions": len(decisions),
        "num_tasks": len(tasks),
        "decisions_sha256": _digest(decisions),
        "tasks_sha256": _digest(tasks),
    }


def _digest(rows: object) -> str:
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


def differences(replayed: Json, recorded: Json) -> list[str]:
    """Names of the recorded figures that `replayed` does not repeat (sums: to 1e-9)."""
    wrong = []
    for key, value in replayed.items():
        expected = recorded.get(key)
        if isinstance(value, float) and expected is not None:
            same = math.isclose(value, expected, rel_tol=1e-9, abs_tol=1e-9)
        else:
            same = value == expected
        if not same:
            wrong.append(key)
    return wrong


def check_file(path: Path) -> tuple[int, list[str]]:
    """Replay every run of `path`: the number of runs, and one line for each that differs."""
    content = json.loads(path.read_text())
    trace, arrival_ms = load_jobs(content["jobs"])
    faults = []
    for run in content["runs"]:
        settings = run["settings"]
        wrong = differences(replay(trace, arrival_ms, settings), run["result"])
        if wrong:
            label = f"{settings['policy']}, {settings['num_executors']} executors"
            faults.append(f"{label}, moving {settings['moving_delay_ms']} ms: {', '.join(wrong)}")
    return len(content["runs"]), faults


def main(arguments: Sequence[str]) -> int:
    if not arguments:
        print("usage: python -m benchmarks.golden FILE...", file=sys.stderr)
        return 2
    failed = False
    for name in arguments:
        try:
            runs, faults = check_file(Path(name))
        except (OSError, ValueError, KeyError, TypeError) as error:
            print(f"error: {name}: not a golden file: {error}", file=sys.stderr)
            return 2
        failed |= bool(faults)
        verdict = f"first: {faults[0]}" if faults else "identical"
        print(f"{name}: {runs - len(faults)} of {runs} runs identical; {verdict}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
