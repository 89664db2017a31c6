"""Results and timelines of which every figure is known, for the tests of reports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa

from decima.evaluation.report import FIGURES, FORMAT, VERSION
from decima.report import Timelines
from decima.report.section import Section
from decima.spark import JobStatus, SchedulerStatus
from decima.training.config import TrainConfig
from traces import Job, Stage, Trace

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
"""a job's name that would run, if it were ever taken for HTML"""


def results_json(**figures: dict[str, list[float]]) -> dict[str, Any]:
    """An evaluation's JSON: policies a and b, two sequences of two jobs.

    Args:
        figures: values by policy for a figure, in place of 10 and 12 s for a, 9 and 11 s for b; of
            shares a twentieth of that.
    """
    values = {"a": [10.0, 12.0], "b": [9.0, 11.0]}
    shares = {name: [value / 20 for value in row] for name, row in values.items()}
    figures = {"utilisation": shares, "fairness": shares} | figures
    return {
        "format": FORMAT,
        "version": VERSION,
        "config": {
            "trace": "no-such-trace",
            "policies": ["a", "b"],
            "executors": 2,
            "interarrival_s": 5,
            "arrivals": "poisson",
            "sequences": 2,
            "seed": 0,
            "protocol": "executors",
            "moving_delay_s": 2.0,
            "estimates": "exact",
        },
        "sequences": [
            {"name": ["small", HOSTILE], "arrival_s": [0.0, 4.0], "work_s": [4.0, 40.0]},
            {"name": ["small", "small"], "arrival_s": [0.0, 4.0], "work_s": [4.0, 4.0]},
        ],
        "policies": {
            name: {
                **{
                    figure: {"per_sequence": figures.get(figure, values)[name]}
                    for figure in FIGURES
                },
                "busy_executor_s": 60.0,
                "first_executor_s": 20.0,
                "moving_executor_s": 10.0,
                "idle_executor_s": 30.0,
                "unfinished": 0,
                "not_arrived": 0,
                "jct_s": [[6.0, 20.0], [2.0, 4.0]],
            }
            for name in ("a", "b")
        },
    }


def decisions() -> Section:
    """Two plans, at 2 and 4 s: the first without reasons, the second with two."""

    def entry(number: int, time_s: float, **more: Any) -> dict[str, Any]:
        stage = {
            "job": 1, "name": HOSTILE, "stage": "left", "p": 0.75, "place": 1, "wanted": 3,
            "task_s": 5.0, "path_s": 6.0, "left_s": 15.0, "held": 0, "age_s": 2.0,
        }  # fmt: skip
        return {
            "number": number,
            "time_s": time_s,
            "jobs": 2,
            "offer": 1,
            "stages": 1,
            "likely": [stage],
            "end": {"p": 0.25, "place": 2},
            "taken": {"job": 1, "stage": "left", "limit": 2},
            "others": {"a": {"job": 1, "stage": "left", "limit": 2}, "b": None},
            "words": [],
            "reasons": [],
            **more,
        }

    told = {
        "words": [f"Because {HOSTILE}."],
        "reasons": [["work left", 1.5], ["moving cost", -0.5]],
    }
    return Section(
        "decisions",
        "Decisions of b",
        "decisions.html",
        {"policy": "b", "sequence": 0, "plans": 2, "explained": 1},
        decisions=[entry(3, 2.0), entry(7, 4.0, **told)],
    )


def two_runs() -> Timelines:
    """Jobs 0 and 1 on two executors: under a one after the other, under b side by side.

    Job 1 is a diamond, left and right between top and bottom; left is the longer way.
    """
    rows = {
        "a": [
            (0, 0, 0, 0, 0.0, 1000.0),
            (0, 0, 1, 1, 0.0, 2000.0),
            (1, 0, 0, 0, 2000.0, 4000.0),
            (1, 1, 0, 0, 4000.0, 9000.0),
            (1, 2, 0, 1, 4000.0, 6000.0),
            (1, 3, 0, 1, 9000.0, 10_000.0),
        ],
        "b": [
            (0, 0, 0, 0, 0.0, 1000.0),
            (0, 0, 1, 0, 1000.0, 3000.0),
            (1, 0, 0, 1, 0.0, 2000.0),
            (1, 1, 0, 1, 2000.0, 7000.0),
            (1, 2, 0, 0, 3000.0, 5000.0),
            (1, 3, 0, 1, 7000.0, 8000.0),
        ],
    }
    names = ["small", HOSTILE]
    columns = ("job", "stage", "task", "executor", "start_ms", "finish_ms")
    tables = []
    for policy, tasks in rows.items():
        named = dict(zip(columns, map(list, zip(*tasks, strict=True)), strict=True))
        tables.append(
            pa.table(
                {
                    "policy": [policy] * len(tasks),
                    "sequence": pa.array([0] * len(tasks), pa.int32()),
                    "name": [names[job] for job in named["job"]],
                    **named,
                }
            )
        )
    diamond = (
        Stage.fixed("top", 1, 2000.0),
        Stage.fixed("left", 1, 5000.0, (0,)),
        Stage.fixed(HOSTILE, 1, 2000.0, (0,)),
        Stage.fixed("bottom", 1, 1000.0, (1, 2)),
    )
    jobs = (Job("small", (Stage.fixed("only", 2, 1500.0),)), Job(HOSTILE, diamond))
    return Timelines(pa.concat_tables(tables), Trace("two", jobs))


def two_sequences() -> Timelines:
    """The same runs as `two_runs`, on sequence 1 as well, whose jobs have other names."""
    runs = two_runs()
    table = runs.table
    for name, values in {
        "sequence": pa.array([1] * len(table), pa.int32()),
        "name": pa.array(["small"] * len(table)),
    }.items():
        table = table.set_column(table.column_names.index(name), name, values)
    return runs._replace(table=pa.concat_tables([runs.table, table]))


def live_status() -> SchedulerStatus:
    """A scheduler of three jobs on eight slots, the last of which waits."""
    jobs = (
        JobStatus("job nightly", "nightly", 5, 6, 10, 75.0, None),
        JobStatus("group report", "report", 1, 1, 0, 30.0, None),
        JobStatus("spark 7", "late", 0, None, 4, 3.0, 2.0),
    )
    return SchedulerStatus(
        mode="exact",
        policy="decima",
        is_attached=True,
        ended_because=None,
        plans=7,
        fallbacks=1,
        last_fault=None,
        starved=0,
        plan_ms_median=2.0,
        plan_ms_p90=4.0,
        held={job.key: job.held for job in jobs},
        limits={"job nightly": 6, "group report": 1},
        dropped_events=0,
        prior_hits=0,
        prior_misses=0,
        jvm={"lapses": 2},
        slots=8,
        jobs=jobs,
        decisions_per_s=3.5,
        uptime_s=100.0,
        heard_s=0.1,
    )


def run_folder(path: Path) -> Path:
    """Three iterations, of which the first and the last were validated, and a line cut short."""
    path.mkdir()
    (path / "config.json").write_text(json.dumps(TrainConfig().to_json()))
    rows: list[dict[str, float]] = [
        {"iteration": 0, "plans": 100, "elapsed_s": 10, "entropy": 0.5, "rollouts_percent": 3.0,
         "validation/score": -10.0, "validation/above_es_rule": 20.0,
         "validation/one_percent": -10.0, "validation/<b>_percent": -5.0},
        {"iteration": 1, "plans": 300, "elapsed_s": 20, "entropy": 0.4, "rollouts_percent": 2.0},
        {"iteration": 2, "plans": 200, "elapsed_s": 25, "entropy": 0.3, "rollouts_percent": 1.0,
         "validation/score": -19.0, "validation/above_es_rule": -10.0,
         "validation/one_percent": -19.0, "validation/<b>_percent": -15.0},
    ]  # fmt: skip
    lines = [json.dumps(row) for row in rows]
    (path / "metrics.jsonl").write_text("\n".join(lines) + '\n{"iteration": 3, "pl')
    return path
