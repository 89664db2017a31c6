"""The deterministic policies of the golden runs, decima-sim's own two among them.

Each answers in decima-sim's terms: (stage or NONE, executors to add).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from spark_sim import Observation
from spark_sim.tables import NONE

Choice = tuple[int, int]
GoldenPolicy = Callable[[Observation], Choice]


def first_open(most: int | None) -> GoldenPolicy:
    """The first stage that may be chosen, for up to `most` executors (None: all on offer)."""

    def decide(observation: Observation) -> Choice:
        open_stages = observation.open_stages()
        if len(open_stages) == 0:
            return NONE, observation.on_offer
        count = observation.on_offer if most is None else min(most, observation.on_offer)
        return int(open_stages[0]), count

    return decide


def congruential(idle_every: int | None) -> GoldenPolicy:
    """Stage and count from a linear congruential generator; idles when y mod `idle_every` is 0."""
    x = 12345

    def decide(observation: Observation) -> Choice:
        nonlocal x
        x = (1103515245 * x + 12345) % 2**31
        y = x >> 8
        open_stages = observation.open_stages()
        idles = idle_every is not None and y % idle_every == 0
        if len(open_stages) == 0 or idles:
            return NONE, observation.on_offer
        stage = int(open_stages[y % len(open_stages)])
        return stage, 1 + (y // 7) % observation.on_offer

    return decide


def _preferred(observation: Observation, job: int) -> int:
    """The job's open stage that became runnable first, else its first open stage, else NONE."""
    row = observation.jobs[job]
    stages = np.arange(row["first_stage"], row["first_stage"] + row["num_stages"])
    stages = stages[observation.stages["open"][stages] == 1]
    runnable = stages[observation.stages["runnable"][stages] == 1]
    if len(runnable):
        return int(runnable[np.argmin(observation.stages["order"][runnable])])
    return int(stages[0]) if len(stages) else NONE


def fair(observation: Observation) -> Choice:
    """decima-sim's dynamic_partition: the source job keeps its own, others up to the fair share."""
    jobs = observation.jobs
    source = observation.source_job
    if source != NONE and jobs["active"][source] == 1:
        stage = _preferred(observation, source)
        if stage != NONE:
            return stage, observation.on_offer
    sharing = sum(1 for job in observation.active if _wants_executors(observation, job))
    cap = math.ceil(observation.num_executors / max(1, sharing))
    for job in observation.active:
        held = int(jobs["held"][job])
        stage = _preferred(observation, job) if held < cap else NONE
        if stage != NONE:
            return stage, min(observation.demand(stage), cap - held, observation.on_offer)
    return NONE, observation.on_offer


def _wants_executors(observation: Observation, job: int) -> bool:
    row = observation.jobs[job]
    stages = observation.stages[row["first_stage"] : row["first_stage"] + row["num_stages"]]
    return bool((stages["covered"] < stages["num_tasks"]).any())


def spark_fifo() -> GoldenPolicy:
    """decima-sim's spark_fifo: a job gets at most N executors from outside in its whole life."""
    granted: dict[int, int] = {}

    def decide(observation: Observation) -> Choice:
        source = observation.source_job
        if source != NONE and observation.jobs["active"][source] == 1:
            stage = _preferred(observation, source)
            if stage != NONE:
                return stage, observation.on_offer
        for job in observation.active:
            ungranted = observation.num_executors - granted.get(int(job), 0)
            stage = _preferred(observation, job) if ungranted > 0 else NONE
            if stage != NONE:
                count = min(observation.demand(stage), ungranted, observation.on_offer)
                granted[int(job)] = granted.get(int(job), 0) + count
                return stage, count
        return NONE, observation.on_offer

    return decide


POLICIES: dict[str, Callable[[], GoldenPolicy]] = {
    "first_all": lambda: first_open(None),
    "first_limit1": lambda: first_open(1),
    "first_limit3": lambda: first_open(3),
    "lcg": lambda: congruential(None),
    "lcg_null": lambda: congruential(11),
    "fair": lambda: fair,
    "spark_fifo": spark_fifo,
}
