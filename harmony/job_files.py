"""Jobs from files: a table of training jobs, and its import from public traces of GPU clusters.

Tables have the columns `arrival_min`, `model`, `workers`, `ps` and `minutes` (alone, on GPUs of
speed 1). A further one, `gpu`, may name the type of GPU that the workers need; where empty, any
will do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import numpy as np

from decima.rl.errors import StudyError
from harmony.config import MAX_MIN, Config
from harmony.measured import measured
from harmony.tables import NONE, Float64, Int32
from traces.files.names import clean
from traces.files.reading import read_json
from traces.files.rows import Row, read_rows, write_rows

COLUMNS = ("arrival_min", "model", "workers", "ps", "minutes")
GPU_COLUMN = "gpu"
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
_PHILLY_MACHINES = ("machineId", "number of GPUs", "single GPU mem")
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
    """(n,) that the job needs alone, on the fewest servers and GPUs of speed 1"""
    gpu: Int32
    """(n,) type of GPU that its workers need, or NONE"""


class TraceJob(NamedTuple):
    """A job of a trace."""

    arrival_s: float
    owner: str
    """whose jobs are taken to be of one model"""
    workers: int
    ps: int
    minutes: float
    gpu: str = ""
    """type on which it ran; "" where the trace has none"""


@cache
def read_table(path: str, config: Config) -> JobTable:
    """Read a table of jobs for a cluster.

    Raises:
        StudyError: it cannot be read, holds no job, or one that the cluster cannot hold.
    """
    models, most = measured(config.table_file).models, config.max_workers
    jobs = []
    for row in read_rows(Path(path), COLUMNS, StudyError, optional=(GPU_COLUMN,)):
        if (name := row.cells["model"]) not in models:
            raise StudyError(f"{row.where}: model is {name!r:.40}; there are {', '.join(models)}")
        arrival_min = row.number("arrival_min", 0.0, MAX_MIN)
        workers, ps = row.whole("workers", 1, most), row.whole("ps", 0, most)
        minutes = row.number("minutes", 1e-3, MAX_MIN)
        gpu = _needed_gpu(row, config, workers)
        jobs.append((arrival_min, models.index(name), workers, ps, minutes, gpu))
    if not jobs:
        raise StudyError(f"{path}: no jobs: at least 1 is needed")
    arrival_min, model, workers, ps, minutes, gpu = np.array(sorted(jobs)).T
    types, sizes, servers, gpus = (column.astype(np.int32) for column in (model, workers, ps, gpu))
    return JobTable(arrival_min - arrival_min[0], types, sizes, servers, minutes, gpus)


def _needed_gpu(row: Row, config: Config, workers: int) -> int:
    """Return the type of GPU that a row asks for, or NONE."""
    name = row.cells.get(GPU_COLUMN, "")
    if not name:
        return NONE
    try:
        number = config.gpu_number(name)
    except StudyError as fault:
        raise StudyError(f"{row.where}: {fault}") from fault
    there = config.gpu_table[number].servers * config.gpus
    if workers > there:
        raise StudyError(f"{row.where}: {workers} workers, but there are {there} GPUs of {name}")
    return number


def write_import(
    form: str, path: Path, config: Config, out: Path, machines: Path | None = None
) -> str:
    """Write a public trace as a table of jobs; return one line about it.

    Jobs without a GPU or a duration are left out. Larger ones are cut to the cluster's most
    workers, so that they train as long on fewer. The traces name no models: all jobs of one owner
    get the same, by a hash of the name. In a cluster of several types of GPU a job needs the type
    that it ran on, if the cluster has enough of it.

    Args:
        form: a key of `READERS`.
        path: of the trace.
        config: the cluster.
        out: the table.
        machines: of Philly, `cluster_machine_list`; None: types of GPU are unknown.

    Raises:
        StudyError: the file is no such trace, holds no job, or the table cannot be written.
    """
    if machines is not None and form != "philly":
        raise StudyError(f"{machines}: a list of machines belongs to philly, not {form}")
    read = _philly(path, machines) if machines is not None else READERS[form](path)
    jobs = sorted(job for job in read if job.workers > 0 and job.minutes > 0.0)
    if not jobs:
        raise StudyError(f"{path}: no complete job with a GPU")
    rows = [_cells(job, jobs[0].arrival_s, config) for job in jobs]
    has_types = bool(config.gpu_types)
    table = [[*COLUMNS, GPU_COLUMN], *rows]
    write_rows(out, table if has_types else [row[:-1] for row in table], StudyError)
    most = config.max_workers
    cut = sum(max(job.workers, job.ps) > most for job in jobs)
    typed = f"; {sum(row[-1] != '' for row in rows)} need a type of GPU" if has_types else ""
    return f"{out}: {len(jobs)} jobs; {cut} cut to {most} workers or parameter servers{typed}"


def _cells(job: TraceJob, begin_s: float, config: Config) -> list[str]:
    """Return the row of a job, the type of GPU last."""
    models, most = measured(config.table_file).models, config.max_workers
    model = models[int.from_bytes(sha256(clean(job.owner).encode()).digest()[:8]) % len(models)]
    workers, ps = min(job.workers, most), min(job.ps, most)
    type_of = {gpu.name: gpu for gpu in config.gpu_table if gpu.name}.get(job.gpu)
    minutes, gpu = job.minutes, ""
    if type_of is not None:
        minutes *= type_of.speed
        gpu = job.gpu if workers <= type_of.servers * config.gpus else ""
    arrival_min = (job.arrival_s - begin_s) / _S_PER_MIN
    return [f"{arrival_min:.3f}", model, str(workers), str(ps), f"{minutes:.3f}", gpu]


def _helios(path: Path) -> Iterator[TraceJob]:
    """Jobs of SenseTime's Helios trace, `cluster_log.csv`."""
    for row in read_rows(path, _HELIOS, StudyError, others=True):
        gpus, seconds = row.whole("gpu_num", 0, _MOST_GPUS), row.number("duration", 0.0, _MOST_S)
        owner, arrival_s = row.cells["user"], row.seconds("submit_time")
        yield TraceJob(arrival_s, owner, gpus, 0, seconds / _S_PER_MIN)


def _alibaba(path: Path) -> Iterator[TraceJob]:
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
        types = {row.cells["gpu_type"] for row in rows if row.cells["plan_gpu"] not in ("", "0")}
        gpu = min(types) if len(types) == 1 else ""
        yield TraceJob(start_s, name, workers, ps, (end_s - start_s) / _S_PER_MIN, gpu)


def _philly(path: Path, machines: Path | None = None) -> Iterator[TraceJob]:
    """Jobs of Microsoft's Philly trace, `cluster_job_log`, by their last attempt."""
    memory = {} if machines is None else _philly_memory(machines)
    content = read_json(path, StudyError, _PHILLY_BYTES)
    if not isinstance(content, list):
        raise StudyError(f"{path}: no list of jobs, as cluster_job_log is")
    for number, job in enumerate(content):
        try:
            attempt = job["attempts"][-1] if job["attempts"] else {}
            servers = attempt.get("detail", ())
            gpus = sum(len(server["gpus"]) for server in servers)
            types = {memory.get(str(server.get("ip")), "") for server in servers}
            times = {name: attempt.get(name) for name in ("start_time", "end_time")}
            times["submitted_time"], owner = job["submitted_time"], str(job["user"])
        except (AttributeError, KeyError, TypeError) as fault:
            raise StudyError(f"{path}: job {number} is no job of cluster_job_log") from fault
        if all(time not in (None, "", "None") for time in times.values()):
            row = Row(f"{path}: job {number}", {n: str(t) for n, t in times.items()}, StudyError)
            seconds = row.seconds("end_time") - row.seconds("start_time")
            gpu = min(types) if len(types) == 1 else ""
            yield TraceJob(row.seconds("submitted_time"), owner, gpus, 0, seconds / _S_PER_MIN, gpu)


def _philly_memory(path: Path) -> dict[str, str]:
    """Memory of a GPU of each machine, the only mark of its type in the trace."""
    rows = read_rows(path, _PHILLY_MACHINES, StudyError, headless=True)
    return {row.cells["machineId"]: row.cells["single GPU mem"] for row in rows}


READERS: Mapping[str, Callable[[Path], Iterator[TraceJob]]] = {
    "alibaba": _alibaba,
    "helios": _helios,
    "philly": _philly,
}
"""by the name of the trace"""
