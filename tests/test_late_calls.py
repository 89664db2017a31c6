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
from spark_sim.compiled.late import LateCalls
from spark_sim.compiled.reference import Reference, by_reference
from traces.numbers import Float64, Int64

_typeof: Any = numba.typeof


class Inner(NamedTuple):
    table: Float64
    number: int


class Pair(NamedTuple):
    """A tuple with a tuple in it, as `State` has."""

    few: Float64
    inner: Inner


def _pair() -> Pair:
    return Pair(np.arange(3.0), Inner(np.arange(6.0).reshape(2, 3), 7))


@kernel
def _sum(pair: Pair, factor: float) -> float:
    return float(factor * (pair.few[2] + pair.inner.table[1, 2] + pair.inner.number))


@kernel
def _write(pair: Pair, value: float) -> float:
    pair.few[0] = value
    return 0.0


@kernel
def _broken(pair: Any, _value: float) -> float:
    return float(pair.missing)


@kernel
def _second(pair: Pair, _value: float) -> float:
    return float(pair.few[1])


@kernel
def _unused(_pair: Pair, _value: float) -> float:
    return 1.0


def _signature() -> Any:
    return types.float64(Reference(_typeof(_pair())), types.float64)


TABLE = LateCalls(
    "decima_table_of_tests",
    (_sum, _write, _broken, _unused, _second),
    _signature,
)
_call = TABLE.call


@inlined_kernel
def _through(number: int, pair: Pair, value: float) -> float:
    return float(_call(number, (by_reference(pair), value)))


@kernel
def _twice(number: int, pair: Pair, value: float) -> float:
    return _through(number, pair, value) + _through(number, pair, value)


FRESH = LateCalls("decima_table_of_one_test", (_sum, _write), _signature)
_of_fresh = FRESH.call


@kernel
def _call_fresh(number: int, pair: Pair) -> float:
    return float(_of_fresh(number, (by_reference(pair), 2.0)))


def test_a_function_is_compiled_when_it_is_called_first() -> None:
    """The others are not: that is what the table is for."""
    assert not FRESH.is_loaded(0)
    assert _call_fresh(0, _pair()) == 2.0 * (2 + 5 + 7)
    assert FRESH.is_loaded(0)
    assert not FRESH.is_loaded(1)


def test_an_array_of_a_reference_is_the_same_memory() -> None:
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


def test_a_kernel_cannot_pass_another_tuple() -> None:
    """The function would read other memory."""
    with pytest.raises(TypingError, match="a kernel passes"):
        _twice(0, Pair(np.arange(3), _pair().inner), 1.0)  # type: ignore[arg-type]


@inlined_kernel
def _first_two(pair: Pair) -> float:
    reference = by_reference(pair)
    second = _call(reference.inner.number, (reference, 0.0))
    return float(reference.few[0] + 10.0 * second)


@kernel
def _in_turn(rows: Float64, numbers: Int64, sums: Float64) -> None:
    for row in range(len(rows)):
        if numbers[row] >= 0:
            sums[row] = _first_two(Pair(rows[row], Inner(rows, numbers[row])))


def test_a_kernel_may_make_references_in_a_loop() -> None:
    """Each iteration reads its own tuple, here and in the function that it calls."""
    rows = np.arange(40.0).reshape(20, 2)
    sums = np.zeros(20)
    numbers = np.tile([3, 4], 10)  # 1, or the second
    _in_turn(rows, numbers, sums)
    second = np.where(numbers == 3, 1.0, rows[:, 1])
    assert sums.tolist() == (rows[:, 0] + 10.0 * second).tolist()


@kernel
def _refer_to(value: Any) -> float:
    return float(_call(0, (by_reference(value), 1.0)))


def test_a_reference_is_to_a_named_tuple() -> None:
    with pytest.raises(TypingError, match="takes a named tuple, not float64"):
        _refer_to(1.0)


@kernel
def _pass_on(pair: Pair, value: Any) -> float:
    return float(_call(0, (by_reference(pair), value)))


@pytest.mark.parametrize("value", [np.arange(2.0), 1j])
def test_a_kernel_cannot_pass_other_arguments(value: object) -> None:
    with pytest.raises(TypingError, match="a kernel passes"):
        _pass_on(_pair(), value)


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
