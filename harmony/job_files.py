"""Jobs from files: a table of training jobs, and its import from public traces of GPU clusters.

Tables have the columns `arrival_min`, `model`, `workers`, `ps` and `minutes` (alone).
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import numpy as np

from decima.rl.errors import StudyError
from harmony.config import MAX_MIN, Config
from harmony.measured import measured
from harmony.tables import Float64, Int32
from traces.files.reading import read_json
from traces.files.rows import Row, read_rows
from traces.files.writing import write_whole

COLUMNS = ("arrival_min", "model", "workers", "ps", "minutes")
_HELIOS = ("user", "gpu_num", "submit_time", "duration")
_ALIBABA = (
    "job_name",
    "task_name",
    "inst_num",
    "status",
    "start_time",
    "end_time",
    "plan_cpu",
    "plan_mem",
    "plan_gpu",
    "gpu_type",
)
_PHILLY_BYTES = 2**29
_MOST_S, _MOST_GPUS = 1e12, 10**6
_S_PER_MIN = 60.0


class JobTable(NamedTuple):
    """n jobs of a file, in the order of arrival."""

    arrival_min: Float64
    """(n,) since the first"""
    model: Int32
    """(n,) type of the job"""
    workers: Int32
    """(n,)"""
    ps: Int32
    """(n,) parameter servers; 0 for all-reduce"""
    minutes: Float64
    """(n,) that the job needs alone, on the fewest servers"""


class Asked(NamedTuple):
    """A job of a trace."""

    arrival_s: float
    owner: str
    """whose jobs are taken to be of one model"""
    workers: int
    ps: int
    minutes: float


@cache
def read_table(path: str, config: Config) -> JobTable:
    """Read a table of jobs for a cluster.

    Raises:
        StudyError: it cannot be read, holds no job, or one that the cluster cannot hold.
    """
    models, most = measured(config.table_file).models, config.max_workers
    jobs = []
    for row in read_rows(Path(path), COLUMNS, StudyError):
        if (name := row.cells["model"]) not in models:
            raise StudyError(f"{row.where}: model is {name!r:.40}; there are {', '.join(models)}")
        arrival_min = row.number("arrival_min", 0.0, MAX_MIN)
        workers, ps = row.whole("workers", 1, most), row.whole("ps", 0, most)
        minutes = row.number("minutes", 1e-3, MAX_MIN)
        jobs.append((arrival_min, models.index(name), workers, ps, minutes))
    if not jobs:
        raise StudyError(f"{path}: no jobs: at least 1 is needed")
    arrival_min, model, workers, ps, minutes = np.array(sorted(jobs)).T
    types, sizes, servers = (column.astype(np.int32) for column in (model, workers, ps))
    return JobTable(arrival_min - arrival_min[0], types, sizes, servers, minutes)


def write_import(form: str, path: Path, config: Config, out: Path) -> str:
    """Write a public trace as a table of jobs; return one line about it.

    Jobs without a GPU or a duration are left out. Larger ones are cut to the cluster's most
    workers, so that they train as long on fewer. The traces name no models: all jobs of one owner
    get the same, by a hash of the name.

    Args:
        form: a key of `READERS`.
        path: of the trace.
        config: the cluster.
        out: the table.

    Raises:
        StudyError: the file is no such trace, holds no job, or the table cannot be written.
    """
    jobs = sorted(job for job in READERS[form](path) if job.workers > 0 and job.minutes > 0.0)
    if not jobs:
        raise StudyError(f"{path}: no complete job with a GPU")
    models, most = measured(config.table_file).models, config.max_workers
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for job in jobs:
        arrival_min = (job.arrival_s - jobs[0].arrival_s) / _S_PER_MIN
        model = models[int.from_bytes(sha256(job.owner.encode()).digest()[:8]) % len(models)]
        sizes = (min(job.workers, most), min(job.ps, most))
        writer.writerow([f"{arrival_min:.3f}", model, *sizes, f"{job.minutes:.3f}"])
    write_whole(out, text.getvalue().encode(), StudyError)
    cut = sum(max(job.workers, job.ps) > most for job in jobs)
    return f"{out}: {len(jobs)} jobs; {cut} cut to {most} workers or parameter servers"


def _helios(path: Path) -> Iterator[Asked]:
    """Jobs of SenseTime's Helios trace, `cluster_log.csv`."""
    for row in read_rows(path, _HELIOS, StudyError, others=True):
        gpus, seconds = row.whole("gpu_num", 0, _MOST_GPUS), row.number("duration", 0.0, _MOST_S)
        owner, arrival_s = row.cells["user"], row.seconds("submit_time")
        yield Asked(arrival_s, owner, gpus, 0, seconds / _S_PER_MIN)


def _alibaba(path: Path) -> Iterator[Asked]:
    """Jobs of Alibaba's PAI trace of 2020, `pai_task_table.csv`; tasks named ps are servers."""
    tasks: dict[str, list[Row]] = {}
    for row in read_rows(path, _ALIBABA, StudyError, headless=True):
        if row.cells["status"] == "Terminated":
            tasks.setdefault(row.cells["job_name"], []).append(row)
    for name, rows in tasks.items():
        start_s = min(row.number("start_time", 0.0, _MOST_S) for row in rows)
        end_s = max(row.number("end_time", 0.0, _MOST_S) for row in rows)
        counts = [(row, row.whole("inst_num", 0, _MOST_GPUS)) for row in rows]
        workers = sum(count for row, count in counts if row.cells["plan_gpu"] not in ("", "0"))
        ps = sum(count for row, count in counts if row.cells["task_name"] == "ps")
        yield Asked(start_s, name, workers, ps, (end_s - start_s) / _S_PER_MIN)


def _philly(path: Path) -> Iterator[Asked]:
    """Jobs of Microsoft's Philly trace, `cluster_job_log`, by their last attempt."""
    content = read_json(path, StudyError, _PHILLY_BYTES)
    if not isinstance(content, list):
        raise StudyError(f"{path}: no list of jobs, as cluster_job_log is")
    for number, job in enumerate(content):
        try:
            attempt = job["attempts"][-1] if job["attempts"] else {}
            gpus = sum(len(server["gpus"]) for server in attempt.get("detail", ()))
            times = {name: attempt.get(name) for name in ("start_time", "end_time")}
            times["submitted_time"], owner = job["submitted_time"], str(job["user"])
        except (AttributeError, KeyError, TypeError) as fault:
            raise StudyError(f"{path}: job {number} is no job of cluster_job_log") from fault
        if all(time not in (None, "", "None") for time in times.values()):
            row = Row(f"{path}: job {number}", {n: str(t) for n, t in times.items()}, StudyError)
            seconds = row.seconds("end_time") - row.seconds("start_time")
            yield Asked(row.seconds("submitted_time"), owner, gpus, 0, seconds / _S_PER_MIN)


READERS: Mapping[str, Callable[[Path], Iterator[Asked]]] = {
    "alibaba": _alibaba,
    "helios": _helios,
    "philly": _philly,
}
"""by the name of the trace"""
