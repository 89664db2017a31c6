"""Job sequences: arrivals and sizes, drawn from named streams of one seed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path

import numpy as np

from decima.rl.errors import StudyError
from decima.rl.study.lockstep import joined
from decima.rl.study.streams import Purpose, each_drawn
from harmony.config import MAX_MIN, Config
from harmony.job_files import JobTable, read_table
from harmony.measured import measured, types_of
from harmony.tables import GPU, NONE, WORKER, Float64, Jobs
from traces.files.numbers import is_number
from traces.files.reading import read_json

_SHORTEST = 0.05
"""of the median"""
_MOST_ARRIVALS = 1_000_000
_LATEST = 1e15
"""time of a trace file, in whatever unit; beyond it a float loses thousandths"""
_MOST_EPOCHS = 1e9
"""of a job"""


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

    Raises:
        StudyError: there is none, they are not in the order of arrival, or one cannot be placed.
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
    columns = list(zip(*jobs, strict=True))
    numbers = [config.gpu_number(name) if name else NONE for name in gpu or [""] * len(jobs)]
    return Jobs(
        np.array([len(jobs)], np.int32),
        np.array([columns[0]], np.float64),
        np.array([[models.index(name) for name in columns[1]]], np.int32),
        np.array([columns[2]], np.int32),
        np.array([columns[3]], np.int32),
        np.array([columns[4]], np.float64),
        np.array([[False] * len(jobs) if exclusive is None else list(exclusive)], np.bool_),
        np.array([numbers], np.int32),
    )


def _draw(config: Config, rng: np.random.Generator) -> Jobs:
    table = _of_file(config, rng) if config.jobs_file else _drawn(config, rng)
    # Epochs a minute on the fewest servers whose GPUs suffice.
    fewest = -(-table.workers // config.gpus)
    alone = types_of(config).alone[table.model, table.workers, table.ps, fewest]
    count = config.jobs
    exclusive = np.zeros(count, np.bool_)
    if config.exclusive_share > 0.0:
        exclusive = rng.random(count) < config.exclusive_share
    return Jobs(
        np.array([count], np.int32),
        table.arrival_min[None],
        table.model[None],
        table.workers[None],
        table.ps[None],
        (table.minutes * alone)[None],
        exclusive[None],
        table.gpu[None],
    )


def _drawn(config: Config, rng: np.random.Generator) -> JobTable:
    count = config.jobs
    arrival_min = _arrivals(config, rng)
    models = len(measured(config.table_file).models)
    model = rng.integers(models, size=count, dtype=np.int32)
    workers, ps = rng.integers(1, config.max_workers, (2, count), dtype=np.int32, endpoint=True)
    ps = np.where(rng.random(count) < config.all_reduce_share, 0, ps).astype(np.int32)
    time_min = config.median_min * np.exp(config.sigma * rng.standard_normal(count))
    time_min = np.clip(time_min, _SHORTEST * config.median_min, config.longest_min)
    gpu = np.full(count, NONE, np.int32)
    if config.gpu_required_share > 0.0:
        # The type of a random server; none where the workers find no room.
        servers = np.array([gpu_type.servers for gpu_type in config.gpu_table])
        drawn = rng.choice(len(servers), count, p=servers / servers.sum())
        needs = rng.random(count) < config.gpu_required_share
        room = servers[drawn] * (config.gpus // types_of(config).demand[model, WORKER, GPU])
        gpu = np.where(needs & (workers <= room), drawn, NONE).astype(np.int32)
    return JobTable(arrival_min, model, workers, ps, time_min, gpu)


def _of_file(config: Config, rng: np.random.Generator) -> JobTable:
    """Jobs of a file in a row, from a random one on; after the last comes the first."""
    table = read_table(config.jobs_file, config)
    first = int(rng.integers(len(table.model)))
    taken = np.arange(first, first + config.jobs) % len(table.model)
    if config.arrivals == "trace":
        arrival_min = _at_mean_rate(config, table.arrival_min, first)
    else:
        arrival_min = _arrivals(config, rng)
    return JobTable(
        arrival_min,
        table.model[taken],
        table.workers[taken],
        table.ps[taken],
        table.minutes[taken],
        table.gpu[taken],
    )


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

    Raises:
        StudyError: it cannot be read, or holds no such list.
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
