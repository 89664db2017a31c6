"""Entry point of the kernels for the three protocols."""

from __future__ import annotations

from spark_sim.compile import inlined_kernel, kernel
from spark_sim.kernels import decima_sim, executors, session, session_rounds
from spark_sim.tables import DONE, State

_SESSION = 1
_DECIMA_SIM = 2
# `Protocol` members as plain numbers: the compiler reads module constants.

_session_advance = session.advance
_session_assign = session_rounds.assign
_decima_sim_advance = decima_sim.advance
_decima_sim_assign = decima_sim.assign
_decima_sim_commit = decima_sim.commit
_executors_advance = executors.advance
_executors_assign = executors.assign


@kernel
def advance(state: State) -> int:
    """Run events until the next decision (DECIDE) or the end (DONE, TRUNCATED, DEADLOCK)."""
    protocol = state.clock[0]["protocol"]
    if protocol == _SESSION:
        return _session_advance(state)
    if protocol == _DECIMA_SIM:
        return _decima_sim_advance(state)
    return _executors_advance(state)


@inlined_kernel
def assign(state: State, stage: int, limit: int, only: int) -> int:
    """Apply one decision: DECIDE while its round is open, DONE when it closed, or ILLEGAL.

    `only` is the class of the executors to give, or ANY; only the default protocol knows classes.
    """
    protocol = state.clock[0]["protocol"]
    if protocol == _SESSION:
        return _session_assign(state, stage, limit)
    if protocol == _DECIMA_SIM:
        return _decima_sim_assign(state, stage, limit)
    return _executors_assign(state, stage, limit, only)


@inlined_kernel
def step(state: State, stage: int, limit: int, only: int) -> int:
    """Apply one decision and run to the next: DECIDE, ILLEGAL, or how the run ended."""
    status = assign(state, stage, limit, only)
    if status == DONE:
        return advance(state)
    return status


@kernel
def step_commit(state: State, stage: int, count: int) -> int:
    """Step with decima-sim's own action: executors to add instead of a limit."""
    status = _decima_sim_commit(state, stage, count)
    if status == DONE:
        return advance(state)
    return status
