"""Job sets: arrivals, durations and demands, drawn from named streams of one seed.

`deeprm.tables.Jobs` is what they are made into.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from decima.rl.errors import StudyError
from decima.rl.study.streams import Purpose, each_drawn
from deeprm.config import MAX_JOBS, Config
from deeprm.job_files import read_table
from deeprm.tables import Int32, Jobs


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

    Raises:
        StudyError: there is none, they are not in the order of arrival, or one does not fit the
            cluster.
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


def _stretch(config: Config, rng: np.random.Generator) -> Jobs:
    """Return the jobs of a file that arrive in a random stretch, which begins with one of them."""
    table = read_table(config.jobs_file, config)
    first = int(rng.integers(len(table.arrival)))
    begin = int(table.arrival[first])
    # Jobs that arrive together are all taken, whichever of them was drawn.
    low, high = np.searchsorted(table.arrival, [begin, begin + config.arrival_steps])
    if high - low > MAX_JOBS:
        raise StudyError(
            f"{config.jobs_file}: {high - low} jobs arrive in {config.arrival_steps} steps: at "
            f"most {MAX_JOBS} are allowed; import it with shorter steps"
        )
    return Jobs(
        np.array([high - low], np.int32),
        table.arrival[None, low:high] - np.int32(begin),
        table.duration[None, low:high],
        table.demand[None, low:high],
    )


def _draw(config: Config, rng: np.random.Generator) -> Jobs:
    if config.jobs_file:
        return _stretch(config, rng)
    chance = config.arrival_rate / config.arrival_trials
    shape = (config.arrival_steps, config.arrival_trials)
    arrived = rng.random(shape) < chance
    while not arrived.any():
        arrived = rng.random(shape) < chance
    arrival = np.nonzero(arrived)[0]
    count = len(arrival)
    small = rng.random(count) < config.small_share
    duration = np.where(
        small,
        _uniform(rng, config.small_duration, count),
        _uniform(rng, config.large_duration, count),
    )
    demand = _uniform(rng, config.other_demand, (count, config.resources))
    dominant = rng.integers(config.resources, size=count)
    demand[np.arange(count), dominant] = _uniform(rng, config.dominant_demand, count)
    return Jobs(
        np.array([count], np.int32),
        arrival[None].astype(np.int32),
        duration[None].astype(np.int32),
        demand[None].astype(np.int32),
    )


def _uniform(rng: np.random.Generator, span: tuple[int, int], size: int | tuple[int, int]) -> Int32:
    return rng.integers(span[0], span[1], size=size, endpoint=True, dtype=np.int32)
