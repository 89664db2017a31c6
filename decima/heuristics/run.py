"""The compiled loop: a whole run under a heuristic without returning to Python."""

from __future__ import annotations

from typing import Any

from numba import types

from decima.heuristics.compiled import Numbers, Scratch
from decima.heuristics.es_classes import decide as _es_classes
from decima.heuristics.es_round import decide as _es_rule
from decima.heuristics.fifo import decide as _fifo
from decima.heuristics.graphene import decide as _graphene
from decima.heuristics.random_choice import decide as _random
from decima.heuristics.sjf_cp import decide as _sjf_cp
from decima.heuristics.spark_fair import decide as _spark_fair
from decima.heuristics.sticky_fair import decide as _sticky_fair
from decima.heuristics.strict_fair import decide as _strict_fair
from decima.heuristics.tetris import decide as _tetris
from decima.heuristics.tuned_srw import decide as _tuned_srw
from decima.heuristics.weighted_fair import decide as _weighted_fair
from decima.kernels import inlined_kernel, kernel
from spark_sim.kernels.dispatch import step
from spark_sim.kernels.view import observed
from spark_sim.observation import Observation
from spark_sim.tables import ANY, DECIDE, State

(
    FIFO, SJF_CP, STICKY_FAIR, STRICT_FAIR, SPARK_FAIR, WEIGHTED_FAIR, TUNED_SRW, ES_RULE, RANDOM,
    TETRIS, GRAPHENE, ES_CLASSES,
) = range(12)  # fmt: skip
"""codes of the heuristics; a function table would not survive in the compiler's cache"""

_TIMED_WITHIN, _STRIDE = 127, 45
# The gaps between timed decisions are 1 to 127, 64 on average: no multiple of a round's length.

# C's clock(): processor time in microseconds, the same call that time.process_time makes.
_processor_us: Any = types.ExternalFunction("clock", types.int64())


@kernel
def decide(
    code: int, seen: Observation, parameters: Numbers, scratch: Scratch
) -> tuple[int, int, int]:
    """(stage, limit, class of executors) by the heuristic called `code`; stage NONE passes."""
    if code == TETRIS:
        return _tetris(seen, parameters, scratch)
    if code == GRAPHENE:
        return _graphene(seen, parameters, scratch)
    if code == ES_CLASSES:
        return _es_classes(seen, parameters, scratch)
    stage, limit = _decide(code, seen, parameters, scratch)
    return stage, limit, ANY


@inlined_kernel
def _decide(code: int, seen: Observation, parameters: Numbers, scratch: Scratch) -> tuple[int, int]:
    """Run a heuristic that leaves the class to the simulator: smallest executors that fit first."""
    if code == FIFO:
        return _fifo(seen, parameters, scratch)
    if code == SJF_CP:
        return _sjf_cp(seen, parameters, scratch)
    if code == STICKY_FAIR:
        return _sticky_fair(seen, parameters, scratch)
    if code == STRICT_FAIR:
        return _strict_fair(seen, parameters, scratch)
    if code == SPARK_FAIR:
        return _spark_fair(seen, parameters, scratch)
    if code == WEIGHTED_FAIR:
        return _weighted_fair(seen, parameters, scratch)
    if code == TUNED_SRW:
        return _tuned_srw(seen, parameters, scratch)
    if code == ES_RULE:
        return _es_rule(seen, parameters, scratch)
    return _random(seen, parameters, scratch)


@kernel
def run(
    state: State, code: int, parameters: Numbers, scratch: Scratch, timed: bool
) -> tuple[int, int]:
    """Run to the end. Returns how it ended and the heuristic's time in microseconds.

    The share is that of a sample of the decisions, scaled to all, less what reading the clock
    takes: that is longer than most decisions. With `timed` false it is 0 and no clock is read.
    """
    status = DECIDE
    spent_us = 0
    decisions = 0
    samples = 0
    due = 0
    while status == DECIDE:
        is_sample = timed and decisions == due
        if is_sample:
            _processor_us()  # the first call after a while takes longer
        began_us = _processor_us() if is_sample else 0
        seen = observed(state)
        stage, limit, kind = decide(code, seen, parameters, scratch)
        if is_sample:
            ended_us = _processor_us()
            spent_us += (ended_us - began_us) - (_processor_us() - ended_us)
            samples += 1
            due += 1 + samples * _STRIDE % _TIMED_WITHIN
        decisions += 1
        status = step(state, stage, limit, kind)
    return status, max(0, spent_us) * decisions // max(1, samples)
