"""Random policy: any open stage and any legal limit, uniformly."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from decima.heuristics.spec import HeuristicSpec, Numbers, Scratch
from decima.kernels import kernel
from spark_sim.kernels.durations import task_hash
from spark_sim.observation import Observation
from spark_sim.tables import ANY, NONE


@kernel
def decide(
    observation: Observation, _parameters: Numbers, scratch: Scratch
) -> tuple[int, int, int]:
    """A uniform choice among the open stages, then among the limits legal for its job."""
    count = 0
    for job in observation.active:
        count += observation.jobs[job]["open_stages"]
    if count == 0:
        return NONE, 0, ANY
    skip = _draw(scratch.draws, count)
    for job in observation.active:
        row = observation.jobs[job]
        if skip >= row["open_stages"]:
            skip -= row["open_stages"]
            continue
        for stage in range(row["first_stage"], row["first_stage"] + row["num_stages"]):
            if observation.stages[stage]["open"] == 1:
                if skip == 0:
                    more = 1 + _draw(scratch.draws, observation.num_executors - row["held"])
                    return stage, row["held"] + more, ANY
                skip -= 1
    return NONE, 0, ANY


@kernel
def _draw(draws: NDArray[np.uint64], count: int) -> int:
    """A uniform number in 0..count - 1; `draws` holds a key and the number of draws so far."""
    draws[1] += np.uint64(1)
    bits = task_hash(draws[0], 0, 0, int(draws[1]))
    return int(((bits >> np.uint64(32)) * np.uint64(count)) >> np.uint64(32))


HEURISTICS = {"random": HeuristicSpec(decide, "any open stage, any legal limit", place=140)}
