"""Functions that machine code calls by number, and tuples that it passes by reference."""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
import pytest
from numba.core import types
from numba.core.errors import TypingError

from spark_sim.compile import inlined_kernel, kernel
from spark_sim.compiled import late
from spark_sim.compiled.late import LateCalls, packing
from traces.numbers import Float64

_typeof: Any = numba.typeof


class Pair(NamedTuple):
    """A tuple with a tuple in it, as `State` has."""

    few: Float64
    inner: tuple[Float64, int]


def _pair() -> Pair:
    return Pair(np.arange(3.0), (np.arange(6.0).reshape(2, 3), 7))


packed, unpacked = packing(lambda: _typeof(_pair()))


@kernel
def _sum(at: int, factor: float) -> float:
    pair = unpacked(at)
    return float(factor * (pair.few[2] + pair.inner[0][1, 2] + pair.inner[1]))


@kernel
def _write(at: int, value: float) -> float:
    pair = unpacked(at)
    pair.few[0] = value
    return 0.0


@kernel
def _broken(at: int, value: Any) -> float:
    return float(value.missing)


@kernel
def _unused(_at: int, _value: float) -> float:
    return 1.0


TABLE = LateCalls(
    "decima_table_of_tests",
    (_sum, _write, _broken, _unused),
    types.float64(types.int64, types.float64),
)
_call = TABLE.call


@inlined_kernel
def _through(number: int, pair: Pair, value: float) -> float:
    return float(_call(number, (packed(pair), value)))


@kernel
def _twice(number: int, pair: Pair, value: float) -> float:
    return _through(number, pair, value) + _through(number, pair, value)


FRESH = LateCalls("decima_table_of_one_test", (_sum, _write), TABLE.signature)
_of_fresh = FRESH.call


@kernel
def _call_fresh(number: int, pair: Pair) -> float:
    return float(_of_fresh(number, (packed(pair), 2.0)))


def test_a_function_is_compiled_when_it_is_called_first() -> None:
    """The others are not: that is what the table is for."""
    assert not FRESH.is_loaded(0)
    assert _call_fresh(0, _pair()) == 2.0 * (2 + 5 + 7)
    assert FRESH.is_loaded(0)
    assert not FRESH.is_loaded(1)


def test_a_packed_array_is_the_same_memory() -> None:
    pair = _pair()
    _twice(1, pair, 9.0)
    assert pair.few.tolist() == [9.0, 1.0, 2.0]


def test_a_function_that_cannot_be_compiled_fails_where_python_called() -> None:
    """Not in the callback, which would print the error and jump to address 0."""
    for _ in range(2):
        with pytest.raises(TypingError, match="missing"):
            _twice(2, _pair(), 1.0)
    assert late.FAULTS == []


def test_the_next_call_compiles_what_was_interrupted() -> None:
    """By Ctrl-C: the call ends."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(_unused, "compile", interrupt, raising=False)
        with pytest.raises(KeyboardInterrupt):
            _twice(3, _pair(), 1.0)
    assert not TABLE.is_loaded(3)
    assert _twice(3, _pair(), 1.0) == 2.0


def test_a_kernel_cannot_pack_another_tuple() -> None:
    """The function would read other memory."""
    with pytest.raises(TypingError, match="packs"):
        _twice(0, Pair(np.arange(3), _pair().inner), 1.0)  # type: ignore[arg-type]


@kernel
def _pass_on(value: Any) -> float:
    return float(_call(0, (0, value)))


@pytest.mark.parametrize("value", [np.arange(2.0), 1j])
def test_a_kernel_cannot_pass_other_arguments(value: object) -> None:
    with pytest.raises(TypingError, match="a kernel passes"):
        _pass_on(value)


@kernel
def _half(at: int) -> float:
    return 0.5 * at


WHOLE = LateCalls("decima_whole_numbers_of_tests", (_half,), types.int64(types.int64))
_of_whole = WHOLE.call


@kernel
def _call_whole(number: int, value: int) -> int:
    return int(_of_whole(number, (value,)))


def test_a_function_that_returns_another_type_is_refused() -> None:
    """Its result would be read as another: it may have been compiled for other callers before."""
    assert _half(3) == 1.5
    _half.compile((types.int64,))  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match=r"returns float64, not int64"):
        _call_whole(0, 3)


@pytest.mark.parametrize("number", [1, -1])
def test_a_number_outside_the_table_is_refused(number: int) -> None:
    with pytest.raises(IndexError, match="outside the table"):
        _call_whole(number, 3)
