"""Time and memory of `decima whatif --each` on hundreds of logs.

    python -m benchmarks.many_applications --make DIR [--count 500] [--mb 5] [--plain]
    python -m benchmarks.many_applications --read DIR
    decima whatif DIR --each

`--make` writes logs of about `--mb` MB. Their events are those of a log of Spark 3.5 in the tests'
data, with other numbers and times: jobs of two stages that come at random to 16 slots, in two
sizes. `--plain` leaves out SQL's accumulators, so that a log has more tasks. `--read` reads them
all, as `--each` does, and prints CPU seconds and the peak of the memory.
"""

from __future__ import annotations

import argparse
import heapq
import json
import re
import resource
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from decima.whatif.replay.driver import note
from traces.spark_log.files import find_logs
from traces.spark_log.reader import HowToRead, read_log

SAMPLE = Path(__file__).resolve().parents[1] / "tests" / "data" / "spark_logs" / "spark-3.5-plain"
SLOTS_EACH, EXECUTORS = 4, 4
_EPOCH_MS = 1_750_000_000_000
_SIZES = ((24, 800.0), (200, 2500.0))
"""tasks of a job's first stage, and their mean in ms: of three jobs in four, and of the others"""

Event = dict[str, Any]


def templates() -> dict[str, Event]:
    """Return an event of each type, the last one that Spark wrote."""
    (path,) = SAMPLE.iterdir() if SAMPLE.is_dir() else (SAMPLE,)
    events = (json.loads(line) for line in path.read_text().splitlines())
    return {event["Event"].rpartition(".")[2]: event for event in events}


class Task(NamedTuple):
    """An attempt at a task."""

    job: int
    stage: int
    number: int
    slot: int
    launch_ms: int
    finish_ms: int


def schedule(rng: np.random.Generator, tasks: int) -> tuple[list[int], list[Task]]:
    """Draw jobs of two stages until there are so many tasks; return arrivals, and tasks by FIFO."""
    arrivals: list[int] = []
    durations: list[tuple[list[int], list[int]]] = []
    drawn, now_ms = 0, 0.0
    while drawn < tasks:
        count, mean_ms = _SIZES[0] if rng.random() < 0.75 else _SIZES[1]
        stages = [rng.gamma(4.0, mean_ms / 4.0, size) for size in (count, count // 8)]
        first_ms, second_ms = ([max(1, round(ms)) for ms in stage.tolist()] for stage in stages)
        durations.append((first_ms, second_ms))
        drawn += count + count // 8
        arrivals.append(round(now_ms))
        work_ms = sum(float(stage.sum()) for stage in stages)
        now_ms += float(rng.exponential(work_ms / (0.8 * SLOTS_EACH * EXECUTORS)))
    played: list[Task] = []
    free = list(range(SLOTS_EACH * EXECUTORS))
    waiting: list[tuple[int, int, int]] = []  # heap of job, stage, task
    left = [len(stages[0]) for stages in durations]
    events = [(arrival_ms, 0, job, -1, -1) for job, arrival_ms in enumerate(arrivals)]
    heapq.heapify(events)
    while events:
        time_ms, stage, job, slot, _ = heapq.heappop(events)
        if slot >= 0:
            free.append(slot)
            left[job] -= 1
            stage += left[job] == 0
        is_new = slot < 0 or left[job] == 0
        if is_new and stage < 2:
            left[job] = len(durations[job][stage])
            for index in range(left[job]):
                heapq.heappush(waiting, (job, stage, index))
        while free and waiting:
            number, place, index = heapq.heappop(waiting)
            slot, end_ms = free.pop(), time_ms + durations[number][place][index]
            played.append(Task(number, place, index, slot, time_ms, end_ms))
            heapq.heappush(events, (end_ms, place, number, slot, index))
    return arrivals, played


def log_lines(name: str, seed: int, mb: float, *, is_plain: bool) -> Iterator[str]:
    """Yield the lines of one log of about that size."""
    known = templates()
    if is_plain:
        known["SparkListenerTaskEnd"]["Task Info"]["Accumulables"] = []
    end, begin = known["SparkListenerTaskEnd"], known["SparkListenerTaskStart"]
    size = len(_text(end)) + len(_text(begin))
    arrivals, tasks = schedule(np.random.default_rng(seed), round(mb * 1e6 / size))
    yield _text(known["SparkListenerLogStart"])
    started = {"App Name": name, "App ID": name, "Timestamp": _EPOCH_MS}
    yield _text({**known["SparkListenerApplicationStart"], **started})
    yield _text(known["SparkListenerEnvironmentUpdate"])
    for number in range(EXECUTORS):
        added = known["SparkListenerExecutorAdded"]
        info = {**added["Executor Info"], "Total Cores": SLOTS_EACH}
        about = {"Timestamp": _EPOCH_MS, "Executor ID": str(number), "Executor Info": info}
        yield _text({**added, **about})
    rows: list[tuple[int, int, str]] = []
    ends: dict[tuple[int, int], list[Task]] = {}
    forms = [(False, _form(begin)), (True, _form(end))]
    for task in tasks:
        ends.setdefault((task.job, task.stage), []).append(task)
        for is_end, form in forms:
            values = {
                "stage": 2 * task.job + task.stage,
                "task": task.number,
                "executor": f'"{task.slot // SLOTS_EACH}"',
                "launch": _EPOCH_MS + task.launch_ms,
                "finish": _EPOCH_MS + task.finish_ms if is_end else 0,
            }
            line = "".join(
                str(values[part]) if place % 2 else part for place, part in enumerate(form)
            )
            rows.append((task.finish_ms if is_end else task.launch_ms, 2, line))
    for job, arrival_ms in enumerate(arrivals):
        listed = []
        for place in (0, 1):
            stage = ends[job, place]
            about = {
                "Stage ID": 2 * job + place,
                "Number of Tasks": len(stage),
                "Parent IDs": [2 * job] if place == 1 else [],
                "RDD Info": [
                    {**rdd, "RDD ID": 10 * (2 * job + place) + row}
                    for row, rdd in enumerate(
                        known["SparkListenerStageSubmitted"]["Stage Info"]["RDD Info"]
                    )
                ],
            }
            for label, order, at_ms in (
                ("Submitted", 1, min(task.launch_ms for task in stage)),
                ("Completed", 3, max(task.finish_ms for task in stage)),
            ):
                template = known[f"SparkListenerStage{label}"]
                info = {**template["Stage Info"], **about}
                rows.append((at_ms, order, _text({**template, "Stage Info": info})))
            listed.append({**known["SparkListenerStageSubmitted"]["Stage Info"], **about})
        properties = {"spark.job.description": f"job {job}", "callSite.short": f"run at {job}"}
        times = {"Job ID": job, "Submission Time": _EPOCH_MS + arrival_ms}
        begun = {**times, "Stage Infos": listed, "Stage IDs": [2 * job, 2 * job + 1]}
        rows.append(
            (
                arrival_ms,
                0,
                _text({**known["SparkListenerJobStart"], **begun, "Properties": properties}),
            )
        )
        end_ms = max(task.finish_ms for task in ends[job, 1])
        done = {"Job ID": job, "Completion Time": _EPOCH_MS + end_ms}
        rows.append((end_ms, 4, _text({**known["SparkListenerJobEnd"], **done})))
    rows.sort(key=lambda row: row[:2])
    yield from (line for *_, line in rows)
    yield _text({**known["SparkListenerApplicationEnd"], "Timestamp": _EPOCH_MS + rows[-1][0]})


def _form(task: Event) -> list[str]:
    """Text of an event of a task, in parts between the names of what differs."""
    names = {"Executor ID": "executor", "Launch Time": "launch", "Finish Time": "finish"}
    names |= dict.fromkeys(("Task ID", "Index", "Partition ID"), "task")
    info = {**task["Task Info"], **{field: f"@{name}@" for field, name in names.items()}}
    return re.split('"@([a-z]+)@"', _text({**task, "Stage ID": "@stage@", "Task Info": info}))


def _text(event: Event) -> str:
    return json.dumps(event, separators=(",", ":")) + "\n"


def make(folder: Path, count: int, mb: float, *, is_plain: bool) -> None:
    """Write the logs."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        name = f"application_1750000000000_{number:04d}"
        with (folder / name).open("w") as file:
            file.writelines(log_lines(name, number, mb, is_plain=is_plain))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--make", type=Path)
    parser.add_argument("--read", type=Path)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--mb", type=float, default=5.0)
    parser.add_argument("--plain", action="store_true")
    options = parser.parse_args()
    if options.make is not None:
        make(options.make, options.count, options.mb, is_plain=options.plain)
    if options.read is not None:
        began_s = time.process_time()
        logs = find_logs([options.read])
        jobs = sum(len(read_log(log, HowToRead(), note).jobs) for log in logs)
        peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(
            f"{len(logs)} logs, {jobs} jobs: {time.process_time() - began_s:.1f} CPU s of reading, "
            f"peak {peak_mb:.0f} MiB"
        )


if __name__ == "__main__":
    main()
