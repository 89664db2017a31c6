"""Job sets: drawn from named streams of one seed, made by hand, or taken from a file.

`deeprm.tables.Jobs` is what they are made into. Files are tables of jobs in steps and units, with
the columns `arrival`, `duration` and `demand_1` to `demand_d`, all whole numbers; public traces are
imported as such tables.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from decima.rl.errors import StudyError
from decima.rl.study.streams import Purpose, each_drawn
from deeprm.config import MAX_JOBS, Config, Span
from deeprm.tables import Int32, Jobs
from traces.files.rows import read_rows, write_rows

_MOST_STEPS = 10**9
_MOST = 1e15
_COMMON = 0.95
"""quantile of the requests: a handful are far larger than all others"""

# Header lines, which the files lack.
_ALIBABA = "task_name,instance_num,job_name,task_type,status,start_time,end_time,plan_cpu,plan_mem"
_GOOGLE = (
    "time,missing info,job ID,task index,machine ID,event type,user,scheduling class,priority,"
    "CPU request,memory request,disk space request,different machines restriction"
)
_SUBMIT, _SCHEDULE, _FINISH = 0, 1, 4
_MICROSECONDS = 1e6


class TraceJob(NamedTuple):
    """A job of a trace; CPU and memory are in the trace's own units."""

    arrival_s: float
    duration_s: float
    cpu: float
    memory: float


@cache
def read_table(path: str, config: Config) -> Jobs:
    """Read a table of jobs for a cluster, as one set that begins with the first arrival.

    Raises StudyError if it cannot be read, holds no job, or one that the cluster cannot hold.
    """
    demands = [f"demand_{r + 1}" for r in range(config.resources)]
    jobs = []
    for row in read_rows(Path(path), ["arrival", "duration", *demands], StudyError):
        arrival = row.whole("arrival", 0, _MOST_STEPS)
        duration = row.whole("duration", 1, config.max_duration)
        units = [row.whole(name, 1, config.max_demand) for name in demands]
        jobs.append((arrival, duration, *units))
    if not jobs:
        raise StudyError(f"{path}: no jobs: at least 1 is needed")
    table = np.array([sorted(jobs)], np.int32)
    number = np.array([len(jobs)], np.int32)
    return Jobs(number, table[:, :, 0] - table[0, 0, 0], table[:, :, 1], table[:, :, 2:])


def write_import(form: str, path: Path, config: Config, step_s: float, out: Path) -> str:
    """Write a public trace as a table of jobs; return one line about it.

    An arrival and a duration are counted in steps of `step_s` seconds; a longer duration is cut to
    the cluster's longest. Requests for CPU, and for memory, are in proportion to `_COMMON` of the
    file, which becomes the largest demand; they are rounded up, and larger ones are cut to it.

    `form` is a key of `READERS`; the cluster must have two resources. Raises StudyError if the file
    is no such trace, holds no job, or the table cannot be written.
    """
    if config.resources != 2:
        raise StudyError(f"traces have CPU and memory: the cluster has {config.resources}")
    jobs = sorted(READERS[form](path))
    if not jobs:
        raise StudyError(f"{path}: no complete job with a request for CPU and memory")
    requests = np.array([(job.cpu, job.memory) for job in jobs])
    largest = np.quantile(requests, _COMMON, axis=0, method="higher")
    cut = 0
    rows: list[list[object]] = [["arrival", "duration", "demand_1", "demand_2"]]
    for job, shares in zip(jobs, np.minimum(requests / largest, 1.0).tolist(), strict=True):
        steps = max(1, math.ceil(job.duration_s / step_s))
        cut += steps > config.max_duration
        arrival = int((job.arrival_s - jobs[0].arrival_s) / step_s)
        units = [max(1, math.ceil(share * config.max_demand - 1e-9)) for share in shares]
        rows.append([arrival, min(steps, config.max_duration), *units])
    write_rows(out, rows, StudyError)
    return f"{out}: {len(jobs)} jobs; {cut} durations cut to {config.max_duration} steps"


def _alibaba(path: Path) -> Iterator[TraceJob]:
    """Tasks of Alibaba's `batch_task.csv` of 2018 that ended: all their instances are one job."""
    for row in read_rows(path, _ALIBABA.split(","), StudyError, headless=True):
        if row.cells["status"] == "Terminated" and row.cells["plan_cpu"] and row.cells["plan_mem"]:
            instances = row.whole("instance_num", 0, 10**9)
            start, end = (row.number(name, 0, _MOST) for name in ("start_time", "end_time"))
            cpu, memory = (row.number(name, 0, _MOST) for name in ("plan_cpu", "plan_mem"))
            if end >= start and min(instances, cpu, memory) > 0:
                yield TraceJob(start, end - start, cpu * instances, memory * instances)


def _google(path: Path) -> Iterator[TraceJob]:
    """Tasks of Google's `task_events` of 2011 with a submission, a start and a normal end."""
    submitted: dict[tuple[str, str], float] = {}
    scheduled: dict[tuple[str, str], float] = {}
    for row in read_rows(path, _GOOGLE.split(","), StudyError, headless=True):
        task, time_s = (row.cells["job ID"], row.cells["task index"]), row.number("time", 0, 1e19)
        event = row.whole("event type", 0, 8)
        if event == _SUBMIT:
            submitted[task] = time_s / _MICROSECONDS
        elif event == _SCHEDULE:
            scheduled[task] = time_s / _MICROSECONDS
        elif event == _FINISH and task in submitted and task in scheduled:
            begun, arrival = scheduled.pop(task), submitted.pop(task)
            if row.cells["CPU request"] and row.cells["memory request"]:
                cpu, memory = (row.number(f"{kind} request", 0, 1) for kind in ("CPU", "memory"))
                if min(cpu, memory) > 0:
                    yield TraceJob(arrival, time_s / _MICROSECONDS - begun, cpu, memory)


READERS: Mapping[str, Callable[[Path], Iterator[TraceJob]]] = {
    "alibaba": _alibaba,
    "google": _google,
}
"""by the name of the trace"""


def draw_jobs(config: Config, sets: int, seed: int, purpose: Purpose, first: int = 0) -> Jobs:
    """Job sets `first` to `first + sets - 1` of a purpose; each has a stream of its own.

    Jobs arrive in each of the `arrival_trials` chances of each of the `arrival_steps` steps with
    the same probability. A set without any job is drawn again: it would have no slowdown.

    Source: DeepRM (HotNets 2016), section 4.1.
    """
    drawn = each_drawn(lambda rng: _draw(config, rng), sets, seed, purpose, first, "job sets")
    return stack(drawn)


def stack(sets: list[Jobs]) -> Jobs:
    """Job sets of any number of rows, one after another."""
    most = max(jobs.arrival.shape[1] for jobs in sets)

    def widened(rows: Int32) -> Int32:
        padding = [(0, 0), (0, most - rows.shape[1]), *[(0, 0)] * (rows.ndim - 2)]
        return np.pad(rows, padding)

    number = np.concatenate([jobs.number for jobs in sets])
    columns = zip(*(jobs[1:] for jobs in sets), strict=True)
    return Jobs(number, *(np.concatenate([widened(x) for x in column]) for column in columns))


def job_set(config: Config, jobs: Sequence[tuple[int, int, tuple[int, ...]]]) -> Jobs:
    """One set of jobs made by hand: (arrival, duration, demands) each.

    Raises StudyError if there is none, they are not in the order of arrival, or one does not fit
    the cluster.
    """
    if not jobs:
        raise StudyError("a job set without jobs: at least 1 is needed")
    latest = 0
    for number, (arrival, duration, demand) in enumerate(jobs):
        if arrival < latest:
            raise StudyError(f"job {number} arrives at {arrival}, after one at {latest}")
        latest = arrival
        if not 0 <= arrival < config.last_step:
            raise StudyError(f"job {number} arrives at {arrival}, not in 0..{config.last_step - 1}")
        if not 1 <= duration <= config.max_duration:
            raise StudyError(f"job {number} lasts {duration} steps, not 1..{config.max_duration}")
        if len(demand) != config.resources or not all(
            1 <= units <= config.max_demand for units in demand
        ):
            raise StudyError(
                f"job {number} needs {demand}: 1..{config.max_demand} units of each of "
                f"{config.resources} resources"
            )
    columns = (np.array([column], np.int32) for column in zip(*jobs, strict=True))
    return Jobs(np.array([len(jobs)], np.int32), *columns)


def _draw(config: Config, rng: np.random.Generator) -> Jobs:
    if config.jobs_file:
        # The jobs of the file that arrive in a random stretch, which begins with one of them.
        _, arrival, duration, demand = read_table(config.jobs_file, config)
        begin = int(arrival[0, rng.integers(arrival.shape[1])])
        # Jobs that arrive together are all taken, whichever of them was drawn.
        low, high = np.searchsorted(arrival[0], [begin, begin + config.arrival_steps])
        if high - low > MAX_JOBS:
            raise StudyError(
                f"{config.jobs_file}: {high - low} jobs arrive in {config.arrival_steps} steps: at "
                f"most {MAX_JOBS} are allowed; import it with shorter steps"
            )
        columns = (arrival - np.int32(begin), duration, demand)
        number = np.array([high - low], np.int32)
        return Jobs(number, *(column[:, low:high] for column in columns))
    chance = config.arrival_rate / config.arrival_trials
    shape = (config.arrival_steps, config.arrival_trials)
    arrived = rng.random(shape) < chance
    while not arrived.any():
        arrived = rng.random(shape) < chance
    arrival = np.nonzero(arrived)[0].astype(np.int32)
    count = len(arrival)

    def uniform(span: Span, *size: int) -> Int32:
        return rng.integers(span[0], span[1], size=size, endpoint=True, dtype=np.int32)

    small = rng.random(count) < config.small_share
    duration = np.where(
        small, uniform(config.small_duration, count), uniform(config.large_duration, count)
    )
    demand = uniform(config.other_demand, count, config.resources)
    dominant = rng.integers(config.resources, size=count)
    demand[np.arange(count), dominant] = uniform(config.dominant_demand, count)
    return Jobs(np.array([count], np.int32), arrival[None], duration[None], demand[None])
