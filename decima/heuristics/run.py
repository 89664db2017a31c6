"""Every heuristic by name, and the compiled loop: a run without returning to Python."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numba
import numpy as np
from numba import types
from numba.core.typing.templates import Signature

import decima.heuristics
from decima.heuristics.spec import HeuristicSpec, Numbers, Scratch, scratch_for
from decima.kernels import inlined_kernel, kernel
from spark_sim.compiled.late import LateCalls
from spark_sim.compiled.reference import by_reference
from spark_sim.kernels.dispatch import observation_type, observed, state_type, step
from spark_sim.observation import Observation
from spark_sim.tables import DECIDE, State


def _found() -> dict[str, HeuristicSpec]:
    """Collect `HEURISTICS` of this package's modules, in the order of lists."""
    specs: dict[str, HeuristicSpec] = {}
    for module in pkgutil.iter_modules(decima.heuristics.__path__, "decima.heuristics."):
        if module.name != __name__:
            specs |= getattr(import_module(module.name), "HEURISTICS", {})
    return dict(sorted(specs.items(), key=lambda item: item[1].place))


HEURISTICS: Mapping[str, HeuristicSpec] = _found()
"""every baseline, in the order of lists"""

# numba's stubs know the types of neither.
_typeof: Any = numba.typeof
_repeated: Any = types.UniTuple


def _signature() -> Signature:
    arguments = (observation_type(), _typeof(np.zeros(1)), _typeof(scratch_for(0)))
    signature: Signature = _repeated(types.int64, 3)(*arguments)
    return signature


_CALLS = LateCalls("decima_heuristics", [spec.decide for spec in HEURISTICS.values()], _signature)
_call = _CALLS.call
load = _CALLS.load
"""Compile the heuristic of a number, or load it, if it was not called yet."""


def number_of(name: str) -> int:
    """Return the number by which kernels call a heuristic: its place in `HEURISTICS`."""
    return list(HEURISTICS).index(name)


_TIMED_WITHIN, _STRIDE = 127, 45
# The gaps between timed decisions are 1 to 127, 64 on average: no multiple of a round's length.

# C's clock(): processor time in microseconds, the same call that time.process_time makes.
_processor_us: Any = types.ExternalFunction("clock", types.int64())


@inlined_kernel
def decide(
    number: int, observation: Observation, parameters: Numbers, scratch: Scratch
) -> tuple[int, int, int]:
    """(stage, limit, class of executors) by the heuristic of that number; stage NONE passes."""
    stage, limit, kind = _call(number, (observation, parameters, scratch))
    return stage, limit, kind


@kernel
def run(
    state: State, number: int, parameters: Numbers, scratch: Scratch, timed: bool
) -> tuple[int, int]:
    """Run to the end. Returns how it ended and the heuristic's time in microseconds.

    The share is that of a sample of the decisions, scaled to all, less what reading the clock
    takes: that is longer than most decisions. With `timed` false it is 0 and no clock is read.
    """
    tables = by_reference(state)
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
        observation = observed(tables)
        stage, limit, kind = decide(number, observation, parameters, scratch)
        if is_sample:
            ended_us = _processor_us()
            spent_us += (ended_us - began_us) - (_processor_us() - ended_us)
            samples += 1
            due += 1 + samples * _STRIDE % _TIMED_WITHIN
        decisions += 1
        status = step(tables, stage, limit, kind)
    return status, max(0, spent_us) * decisions // max(1, samples)


def load_run() -> None:
    """Compile `run` for calls from Python, or load it, without running anything."""
    kernel: Any = run  # known as a function
    numbers, scratch = _typeof(np.zeros(1)), _typeof(scratch_for(0))
    kernel.outer.compile((state_type(), types.int64, numbers, scratch, types.boolean))
