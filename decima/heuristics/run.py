"""The compiled loop: a whole run under a heuristic without returning to Python."""

from __future__ import annotations

from typing import Any

from numba import types

from decima.heuristics import (
    es_classes,
    es_round,
    fifo,
    graphene,
    random_choice,
    sjf_cp,
    spark_fair,
    sticky_fair,
    strict_fair,
    tetris,
    tuned_srw,
    weighted_fair,
)
from decima.heuristics.compiled import Numbers, Scratch
from decima.heuristics.rounds import forget
from decima.kernels import kernel
from spark_sim.kernels.dispatch import step
from spark_sim.kernels.view import observed
from spark_sim.observation import Observation
from spark_sim.tables import ANY, DECIDE, State

(
    FIFO, SJF_CP, STICKY_FAIR, STRICT_FAIR, SPARK_FAIR, WEIGHTED_FAIR, TUNED_SRW, ES_RULE, RANDOM,
    TETRIS, GRAPHENE, ES_CLASSES,
) = range(12)  # fmt: skip
"""codes of the heuristics; a function table would not survive in the compiler's cache"""

_fifo = fifo.decide
_sjf_cp = sjf_cp.decide
_sticky_fair = sticky_fair.decide
_strict_fair = strict_fair.decide
_spark_fair = spark_fair.decide
_weighted_fair = weighted_fair.decide
_tuned_srw = tuned_srw.decide
_es_rule = es_round.decide
_random = random_choice.decide
_tetris = tetris.decide
_graphene = graphene.decide
_es_classes = es_classes.decide

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


@kernel
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
    forget(scratch)
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
