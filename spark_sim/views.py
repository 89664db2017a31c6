"""Read-only observations, for policies of other authors, and writable copies of them."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from spark_sim.observation import Observation
from spark_sim.tables import CLASS, JOB, STAGE

Scalar = TypeVar("Scalar", bound=np.generic)


def read_only(seen: Observation) -> Observation:
    """Return the view with read-only arrays."""
    return seen._replace(
        active=_locked(seen.active),
        classes=_locked(seen.classes),
        jobs=_locked(seen.jobs),
        stages=_locked(seen.stages),
    )


def _locked(array: NDArray[Scalar]) -> NDArray[Scalar]:
    found = array.view()
    found.flags.writeable = False
    return found


def for_kernels(seen: Observation) -> Observation:
    """Return the view with the types that kernels are compiled for: plain numbers, and tables that
    are contiguous and may be written to. Others are copied.
    """
    return Observation(
        float(seen.time_ms),
        int(seen.num_executors),
        int(seen.on_offer),
        int(seen.local),
        int(seen.source_job),
        int(seen.protocol),
        float(seen.moving_delay_ms),
        float(seen.last_arrival_ms),
        float(seen.mean_gap_ms),
        float(seen.typical_ms),
        float(seen.inflation),
        int(seen.round_number),
        int(seen.num_jobs),
        *(
            np.require(table, dtype, ["C", "W"])
            for table, dtype in (
                (seen.active, np.int32),
                (seen.classes, CLASS),
                (seen.jobs, JOB),
                (seen.stages, STAGE),
            )
        ),
    )


def copied(seen: Observation) -> Observation:
    """Return a copy that later steps do not change."""
    return seen._replace(
        active=seen.active.copy(),
        classes=seen.classes.copy(),
        jobs=seen.jobs.copy(),
        stages=seen.stages.copy(),
    )
