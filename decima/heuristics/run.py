"""The compiled loop: a whole run under a heuristic without returning to Python."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numba import types
from numba.core.typing.templates import Signature

from decima.heuristics.compiled import Numbers, Scratch, scratch_for
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
from spark_sim.compiled.late import LateCalls
from spark_sim.kernels.dispatch import observation_type, observed, packed, step_packed
from spark_sim.observation import Observation
from spark_sim.tables import ANY, DECIDE, State

(
    FIFO, SJF_CP, STICKY_FAIR, STRICT_FAIR, SPARK_FAIR, WEIGHTED_FAIR, TUNED_SRW, ES_RULE, RANDOM,
    TETRIS, GRAPHENE, ES_CLASSES,
) = range(12)  # fmt: skip
"""codes of the heuristics: places in the two tables below, one after the other"""


# numba's stubs know the types of neither.
_typeof: Any = numba.typeof
_repeated: Any = types.UniTuple
_OWN_TYPES = (_typeof(np.zeros(1)), _typeof(scratch_for(0)))
# Of `Numbers` and `Scratch`.


def _of_choice() -> Signature:
    found: Signature = _repeated(types.int64, 2)(observation_type(), *_OWN_TYPES)
    return found


def _of_choice_with_class() -> Signature:
    found: Signature = _repeated(types.int64, 3)(observation_type(), *_OWN_TYPES)
    return found


_PLAIN = LateCalls(
    "decima_heuristics",
    (
        _fifo, _sjf_cp, _sticky_fair, _strict_fair, _spark_fair, _weighted_fair, _tuned_srw,
        _es_rule, _random,
    ),
    _of_choice,
)  # fmt: skip
_WITH_CLASS = LateCalls(
    "decima_class_heuristics", (_tetris, _graphene, _es_classes), _of_choice_with_class
)
_choose, _choose_with_class = _PLAIN.call, _WITH_CLASS.call


def load(code: int) -> None:
    """Compile the heuristic called `code`, or load it, if it was not called yet."""
    if code < TETRIS:
        _PLAIN.load(code)
    else:
        _WITH_CLASS.load(code - TETRIS)


_TIMED_WITHIN, _STRIDE = 127, 45
# The gaps between timed decisions are 1 to 127, 64 on average: no multiple of a round's length.

# C's clock(): processor time in microseconds, the same call that time.process_time makes.
_processor_us: Any = types.ExternalFunction("clock", types.int64())


@inlined_kernel
def decide(
    code: int, seen: Observation, parameters: Numbers, scratch: Scratch
) -> tuple[int, int, int]:
    """(stage, limit, class of executors) by the heuristic called `code`; stage NONE passes.

    Those before `TETRIS` leave the class to the simulator: the smallest executors that fit first.
    """
    if code >= TETRIS:
        stage, limit, kind = _choose_with_class(code - TETRIS, (seen, parameters, scratch))
        return stage, limit, kind
    stage, limit = _choose(code, (seen, parameters, scratch))
    return stage, limit, ANY


@kernel
def run(
    state: State, code: int, parameters: Numbers, scratch: Scratch, timed: bool
) -> tuple[int, int]:
    """Run to the end. Returns how it ended and the heuristic's time in microseconds.

    The share is that of a sample of the decisions, scaled to all, less what reading the clock
    takes: that is longer than most decisions. With `timed` false it is 0 and no clock is read.
    """
    at, protocol = packed(state), state.clock[0]["protocol"]
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
        status = step_packed(at, protocol, stage, limit, kind)
    return status, max(0, spent_us) * decisions // max(1, samples)
