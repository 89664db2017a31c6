"""Durations of the instances of Alibaba's tasks: ``batch_instance.csv``, or means made from it.

Of the trace's own table the columns 2, 3, 5, 6 and 7 are read: task_name, job_name, status,
start_time, end_time (seconds; without a header, 14 columns). A file of means has the columns
job_name, task_name and mean seconds, in this order, with or without a header.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping

from traces.files.names import clean

TaskKey = tuple[str, str]  # job_name, task_name


def mean_seconds(lines: Iterable[str], jobs: Container[str]) -> Mapping[TaskKey, float]:
    """Return the mean seconds of the instances of each task of `jobs`, which bound the memory.

    Lines may come in any order; unreadable ones are skipped.
    """
    total: dict[TaskKey, float] = defaultdict(float)
    count: dict[TaskKey, int] = defaultdict(int)
    for line in lines:
        cells = [cell.strip() for cell in line.split(",")]
        found = _of_means(cells) if len(cells) == 3 else _of_instance(cells)
        if found is None:
            continue
        key, seconds = found
        if key[0] in jobs:
            total[key] += seconds
            count[key] += 1
    return {key: seconds / count[key] for key, seconds in total.items()}


def _of_means(cells: list[str]) -> tuple[TaskKey, float] | None:
    job, task, text = cells
    seconds = _number(text)
    return None if seconds is None or seconds < 0 else ((clean(job), task), seconds)


def _of_instance(cells: list[str]) -> tuple[TaskKey, float] | None:
    if len(cells) < 7 or cells[4] != "Terminated":
        return None
    start_s, end_s = _number(cells[5]), _number(cells[6])
    if start_s is None or end_s is None or not 0 < start_s <= end_s:
        return None
    return (clean(cells[2]), cells[1]), end_s - start_s


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
