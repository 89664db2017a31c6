"""Observations for compiled policies: `spark_sim.observation.observe` for kernels."""

from __future__ import annotations

from spark_sim.compile import inlined_kernel
from spark_sim.observation import Observation, local_of
from spark_sim.tables import State

_local_of = inlined_kernel(local_of)


@inlined_kernel
def observed(state: State) -> Observation:
    """The view of `state` for the decision that is due."""
    clock = state.clock[0]
    active = state.active[: clock["num_active"]]
    if state.plan[0]["changed_only"] == 1:
        active = state.asked[: state.plan[0]["num_asked"]]
    return Observation(
        clock["time_ms"],
        clock["num_executors"],
        clock["on_offer"],
        _local_of(clock),
        clock["source_job"],
        clock["protocol"],
        clock["moving_delay_ms"],
        clock["last_arrival_ms"],
        clock["mean_gap_ms"],
        clock["typical_ms"],
        clock["inflation"],
        clock["rounds"],
        clock["num_active"],
        active,
        state.classes,
        state.jobs,
        state.stages,
    )
