"""Decision logs made by hand, as the JVM writes them (`DecisionLog.java`)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def write_log(path: Path, rows: Sequence[Row], **header: Any) -> None:
    """A log of one run."""
    first: Row = {
        "format": "decima-decisions", "version": 3, "run": "one", "mode": "exact",
        "policy": "strict_fair", "parameters": {}, **header,
    }  # fmt: skip
    first.setdefault("ran", first["policy"])
    path.write_text("".join(f"{json.dumps(row)}\n" for row in [first, *rows]))


def plan_row(number: int, time_ms: int, *sets: Sequence[Any], slots: int, **others: Any) -> Row:
    """A plan; `sets` are stage, attempt, job, tasks, successful, running, and whether it was
    cancelled."""
    return {
        "plan": number, "time_ms": time_ms, "applied_ms": [time_ms + 1, time_ms + 3],
        "slots": slots, "by": "p", "fault": None, "sets": sets, "chosen": [number], "limits": {},
        "in_force": True, **others,
    }  # fmt: skip


def job_row(
    name: str,
    arrival_ms: int,
    completion_ms: int | None,
    *stages: tuple[int, Sequence[int], float | None],
    own_ms: int | None = None,
) -> Row:
    """A job; `stages` are tasks, parents and mean duration, None where nothing ran."""
    return {
        "job": f"job {name}", "name": name.partition(" #")[0], "arrival_ms": arrival_ms,
        "completion_ms": completion_ms, "own_ms": own_ms,
        "stages": [
            {"num_tasks": tasks, "parents": parents, "mean_ms": mean_ms}
            for tasks, parents, mean_ms in stages
        ],
    }  # fmt: skip
