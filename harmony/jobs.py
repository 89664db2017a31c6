"""Job sequences: drawn from named streams of one seed, made by hand, or taken from a file.

Files are tables with the columns `arrival_min`, `model`, `workers`, `ps` and `minutes` (alone, on
GPUs of speed 1). A further one, `gpu`, may name the type of GPU that the workers need; where empty,
any will do. Public traces of GPU clusters are imported as such tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from decima.rl.errors import StudyError
from decima.rl.study.lockstep import joined
from decima.rl.study.streams import Purpose, each_drawn
from harmony.config import MAX_MIN, Config
from harmony.measured import measured, types_of
from harmony.tables import GPU, NONE, WORKER, Float64, Int32, Jobs
from traces.files.names import clean
from traces.files.numbers import is_number
from traces.files.reading import read_json
from traces.files.rows import Row, read_rows, write_rows

COLUMNS = ("arrival_min", "model", "workers", "ps", "minutes")
GPU_COLUMN = "gpu"
_HELIOS = ("user", "gpu_num", "submit_time", "duration")
_ALIBABA = (
    "job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type"
)
"""header line, which the file lacks"""
_PHILLY_BYTES = 2**29
_PHILLY_MACHINES = ("machineId", "number of GPUs", "single GPU mem")
_MOST_S, _MOST_GPUS = 1e12, 10**6
_S_PER_MIN = 60.0
_SHORTEST = 0.05
"""of the median"""
_MOST_ARRIVALS = 1_000_000
_LATEST = 1e15
"""time of a trace file, in whatever unit; beyond it a float loses thousandths"""
_MOST_EPOCHS = 1e9
"""of a job"""


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

    Raises StudyError if it cannot be read, holds no job, or one that the cluster cannot hold.
    """
    models, most = measured(config.table_file).models, config.max_workers
    jobs = []
    for row in read_rows(Path(path), COLUMNS, StudyError, optional=(GPU_COLUMN,)):
        if (name := row.cells["model"]) not in models:
            raise StudyError(f"{row.where}: model is {name!r:.40}; there are {', '.join(models)}")
        arrival_min = row.number("arrival_min", 0.0, MAX_MIN)
        workers, ps = row.whole("workers", 1, most), row.whole("ps", 0, most)
        minutes = row.number("minutes", 1e-3, MAX_MIN)
        gpu = NONE
        if gpu_name := row.cells.get(GPU_COLUMN, ""):
            try:
                gpu = config.gpu_number(gpu_name)
            except StudyError as fault:
                raise StudyError(f"{row.where}: {fault}") from fault
            count = config.gpu_table[gpu].servers * config.gpus
            if workers > count:
                message = f"{workers} workers, but there are {count} GPUs of {gpu_name}"
                raise StudyError(f"{row.where}: {message}")
        jobs.append((arrival_min, models.index(name), workers, ps, minutes, gpu))
    if not jobs:
        raise StudyError(f"{path}: no jobs: at least 1 is needed")
    arrival_min, model, workers, ps, minutes, gpu = np.array(sorted(jobs)).T
    types, sizes, servers, gpus = (column.astype(np.int32) for column in (model, workers, ps, gpu))
    return JobTable(arrival_min - arrival_min[0], types, sizes, servers, minutes, gpus)


def write_import(
    form: str, path: Path, config: Config, out: Path, machines: Path | None = None
) -> str:
    """Write a public trace as a table of jobs; return one line about it.

    Jobs without a GPU or a duration are left out. Larger ones are cut to the cluster's most
    workers, so that they train as long on fewer. The traces name no models: all jobs of one owner
    get the same, by a hash of the name. In a cluster of several types of GPU a job needs the type
    that it ran on, if the cluster has enough of it.

    `form` is a key of `READERS`; `machines` is Philly's `cluster_machine_list`, without which types
    of GPU are unknown. Raises StudyError if the file is no such trace, holds no job, or the table
    cannot be written.
    """
    if machines is not None and form != "philly":
        raise StudyError(f"{machines}: a list of machines belongs to philly, not {form}")
    read = _philly(path, machines) if machines is not None else READERS[form](path)
    jobs = sorted(job for job in read if job.workers > 0 and job.minutes > 0.0)
    if not jobs:
        raise StudyError(f"{path}: no complete job with a GPU")
    models, most = measured(config.table_file).models, config.max_workers
    gpu_types = {gpu.name: gpu for gpu in config.gpu_table if gpu.name}
    table = [[*COLUMNS, GPU_COLUMN]]
    for job in jobs:
        arrival_min = (job.arrival_s - jobs[0].arrival_s) / _S_PER_MIN
        model = models[int.from_bytes(sha256(clean(job.owner).encode()).digest()[:8]) % len(models)]
        workers, ps = min(job.workers, most), min(job.ps, most)
        minutes, gpu = job.minutes, ""
        if (gpu_type := gpu_types.get(job.gpu)) is not None:
            minutes *= gpu_type.speed
            gpu = job.gpu if workers <= gpu_type.servers * config.gpus else ""
        cells = [f"{arrival_min:.3f}", model, str(workers), str(ps), f"{minutes:.3f}", gpu]
        table.append(cells)
    write_rows(out, table if gpu_types else [row[:-1] for row in table], StudyError)
    cut = sum(max(job.workers, job.ps) > most for job in jobs)
    typed = f"; {sum(row[-1] != '' for row in table[1:])} need a type of GPU" if gpu_types else ""
    return f"{out}: {len(jobs)} jobs; {cut} cut to {most} workers or parameter servers{typed}"


def _helios(path: Path) -> Iterator[TraceJob]:
    """Jobs of SenseTime's Helios trace, `cluster_log.csv`."""
    for row in read_rows(path, _HELIOS, StudyError, others=True):
        gpus, seconds = row.whole("gpu_num", 0, _MOST_GPUS), row.number("duration", 0.0, _MOST_S)
        owner, arrival_s = row.cells["user"], row.seconds("submit_time")
        yield TraceJob(arrival_s, owner, gpus, 0, seconds / _S_PER_MIN)


def _alibaba(path: Path) -> Iterator[TraceJob]:
    """Jobs of Alibaba's PAI trace of 2020, `pai_task_table.csv`; tasks named ps are servers."""
    tasks: dict[str, list[Row]] = {}
    for row in read_rows(path, _ALIBABA.split(","), StudyError, headless=True):
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
    memory: dict[str, str] = {}
    """of a GPU of each machine, the only mark of its type in the trace"""
    if machines is not None:
        rows = read_rows(machines, _PHILLY_MACHINES, StudyError, headless=True)
        memory = {row.cells["machineId"]: row.cells["single GPU mem"] for row in rows}
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


READERS: Mapping[str, Callable[[Path], Iterator[TraceJob]]] = {
    "alibaba": _alibaba,
    "helios": _helios,
    "philly": _philly,
}
"""by the name of the trace"""


def draw_jobs(config: Config, sequences: int, seed: int, purpose: Purpose, first: int = 0) -> Jobs:
    """Sequences `first` to `first + sequences - 1` of a purpose; each has a stream of its own."""
    drawn = each_drawn(lambda rng: _draw(config, rng), sequences, seed, purpose, first, "sequences")
    return joined(drawn)


def job_sequence(
    config: Config,
    jobs: Sequence[tuple[float, str, int, int, float]],
    exclusive: Sequence[bool] | None = None,
    gpu: Sequence[str] | None = None,
) -> Jobs:
    """One sequence made by hand: (arrival in minutes, model, workers, parameter servers, epochs).

    Args:
        config: the cluster.
        jobs: as above.
        exclusive: whether each job shares no server with another; None: none does so.
        gpu: the type of GPU that each job's workers need, "" for any; None: none needs one.

    Raises StudyError if there is none, they are not in the order of arrival, or one cannot be
    placed.
    """
    if not jobs:
        raise StudyError("a sequence without jobs: at least 1 is needed")
    models = measured(config.table_file).models
    latest = 0.0
    for number, (arrival, model, workers, ps, epochs) in enumerate(jobs):
        if not latest <= arrival <= MAX_MIN:
            raise StudyError(
                f"job {number} arrives at {arrival}, after one at {latest}: times rise, "
                f"up to {MAX_MIN:g} minutes"
            )
        latest = arrival
        if model not in models:
            raise StudyError(f"job {number} is a {model!r:.40}; there are {', '.join(models)}")
        if not (1 <= workers <= config.max_workers and 0 <= ps <= config.max_workers):
            raise StudyError(
                f"job {number} has {workers} workers and {ps} parameter servers: 1 to "
                f"{config.max_workers}, and up to as many"
            )
        if not 0.0 < epochs <= _MOST_EPOCHS:
            raise StudyError(
                f"job {number} trains {epochs} epochs: more than 0, at most {_MOST_EPOCHS:g}"
            )
    arrival_min, names, each_workers, each_ps, each_epochs = zip(*jobs, strict=True)
    numbers = [config.gpu_number(name) if name else NONE for name in gpu or [""] * len(jobs)]
    return Jobs(
        np.array([len(jobs)], np.int32),
        np.array([arrival_min], np.float64),
        np.array([[models.index(name) for name in names]], np.int32),
        np.array([each_workers], np.int32),
        np.array([each_ps], np.int32),
        np.array([each_epochs], np.float64),
        np.array([exclusive or [False] * len(jobs)], np.bool_),
        np.array([numbers], np.int32),
    )


def _draw(config: Config, rng: np.random.Generator) -> Jobs:
    count, types = config.jobs, types_of(config)
    if config.jobs_file:
        # Jobs of the file in a row, from a random one on; after the last comes the first.
        table = read_table(config.jobs_file, config)
        first = int(rng.integers(len(table.model)))
        taken = np.arange(first, first + count) % len(table.model)
        model, workers, ps, minutes, gpu = (column[taken] for column in table[1:])
        if config.arrivals == "trace":
            arrival_min = _at_mean_rate(config, table.arrival_min, first)
        else:
            arrival_min = _arrivals(config, rng)
    else:
        arrival_min = _arrivals(config, rng)
        model = rng.integers(len(types.demand), size=count, dtype=np.int32)
        workers, ps = rng.integers(1, config.max_workers, (2, count), dtype=np.int32, endpoint=True)
        ps = np.where(rng.random(count) < config.all_reduce_share, 0, ps).astype(np.int32)
        minutes = config.median_min * np.exp(config.sigma * rng.standard_normal(count))
        minutes = np.clip(minutes, _SHORTEST * config.median_min, config.longest_min)
        gpu = np.full(count, NONE, np.int32)
        if config.gpu_required_share > 0.0:
            # The type of a random server; none where the workers find no room.
            servers = np.array([gpu_type.servers for gpu_type in config.gpu_table])
            drawn = rng.choice(len(servers), count, p=servers / servers.sum())
            needs = rng.random(count) < config.gpu_required_share
            room = servers[drawn] * (config.gpus // types.demand[model, WORKER, GPU])
            gpu = np.where(needs & (workers <= room), drawn, NONE).astype(np.int32)
    # Epochs a minute on the fewest servers whose GPUs suffice.
    alone = types.alone[model, workers, ps, -(-workers // config.gpus)]
    exclusive = rng.random(count) < config.exclusive_share
    columns: Any = (arrival_min, model, workers, ps, minutes * alone, exclusive, gpu)
    return Jobs(np.array([count], np.int32), *(column[None] for column in columns))


def _arrivals(config: Config, rng: np.random.Generator) -> Float64:
    """(J,) minutes, rising."""
    if config.arrivals == "poisson":
        return np.cumsum(rng.exponential(1.0 / config.per_min, config.jobs))
    if config.arrivals == "uniform":
        # The k-th job comes in the 20 minutes in which the mean number reaches k.
        spans = np.floor(np.arange(config.jobs) / config.jobs_per_20_min)
        return np.sort(20.0 * (spans + rng.random(config.jobs)))
    times = read_arrivals(config.arrivals_file)
    return _at_mean_rate(config, times, int(rng.integers(len(times))))


def _at_mean_rate(config: Config, times: Float64, first: int) -> Float64:
    """(J,) minutes at which jobs arrive, with the gaps of rising times from the `first` on."""
    if not times[-1] > 0.0:
        raise StudyError(f"{config.jobs_file}: all jobs arrive at once: arrivals other than trace")
    gaps = np.diff(times, prepend=0.0)
    taken = np.take(gaps, np.arange(first, first + config.jobs), mode="wrap")
    return np.asarray(np.cumsum(taken) * (len(times) / times[-1]) / config.per_min)


@cache
def read_arrivals(path: str) -> Float64:
    """(n,) rising times of a trace file; "" is the package's.

    Raises StudyError if it cannot be read, or holds no such list.
    """
    file = Path(path) if path else Path(str(files("harmony") / "data" / "arrivals.json"))
    content = read_json(file, StudyError)
    times = content.get("arrivals") if isinstance(content, dict) else None
    if not isinstance(times, list) or not 2 <= len(times) <= _MOST_ARRIVALS:
        raise StudyError(f"{file}: a list `arrivals` of 2 or more times is needed")
    for time in times:
        if not is_number(time):
            raise StudyError(f"{file}: a time of `arrivals` is {time!r:.40}: no finite number")
    rising = np.array(times, float)
    if not (rising[0] >= 0.0 and (np.diff(rising) >= 0.0).all() and rising[-1] > 0.0):
        raise StudyError(f"{file}: times of `arrivals` must not fall, nor be below 0")
    if not 1.0 / _LATEST <= rising[-1] <= _LATEST:
        raise StudyError(
            f"{file}: the last time of `arrivals` is {rising[-1]:g}: {1 / _LATEST:g} to {_LATEST:g}"
        )
    return rising


def equal_arrivals(config: Config) -> str | None:
    """A sentence to warn with, if all times of the configuration's trace are equal."""
    if config.arrivals != "trace" or config.jobs_file:
        return None
    times = read_arrivals(config.arrivals_file)
    if times[0] < times[-1]:
        return None
    return (
        f"{config.arrivals_file}: its {len(times)} times are all {times[0]:g}, so jobs arrive "
        f"{len(times)} at once, so figures do not hold for other arrivals"
    )
