"""`LateCalls`: functions that compiled code calls by number, each compiled when it is first needed.

A kernel that names another one contains it: compiling the caller compiles, and mostly
inlines, all that it might call. One that has three protocols or a dozen heuristics to choose from
would compile them all to run one. Here the caller contains a call through a table of addresses.
An empty place of the table first calls back to Python, which compiles or loads the function.

Machine code names the table by its symbol, so it can be cached; each process has its own table.
`docs/results/2026-11-session-growth.md` has what this saves.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import llvmlite.binding
import llvmlite.ir as ir
import numpy as np
from numba.core import cgutils, types
from numba.core.errors import TypingError
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

from spark_sim.compiled.reference import Reference

# numba's stubs know the types of none of these.
_intrinsic: Any = intrinsic
_signature: Any = Signature
_if_unlikely: Any = cgutils.if_unlikely
_declared: Any = cgutils.get_or_insert_function
_add_symbol: Any = llvmlite.binding.add_symbol
_WORD: Any = ir.IntType(64)
_Load: Any = ctypes.PYFUNCTYPE(None, ctypes.c_int64)

_NAMES: set[str] = set()
"""of all tables: machine code keeps the address of the first"""

FAULTS: list[BaseException] = []
"""why functions could not be compiled, until the call of the kernel ends"""


class NotCompiledError(RuntimeError):
    """A kernel stopped at a function that could not be compiled: `FAULTS` has the reason."""


class LateCalls:
    """A table of kernels of one signature.

    >>> protocols = LateCalls("decima_advance", (executors.advance, session.advance), of_state)
    >>> advance = protocols.call  # in a kernel: advance(number, (by_reference(state),))
    """

    def __init__(
        self, name: str, functions: Sequence[Any], signature: Signature | Callable[[], Signature]
    ) -> None:
        """Args:
        name: symbol of the table, unique in a process.
        functions: kernels, by their numbers.
        signature: of all of them; or a function that returns it, which is called when one of
            them, or of their callers, is compiled.
        """
        if name in _NAMES:
            raise ValueError(f"there is a table {name!r} already")
        _NAMES.add(name)
        self._name = name
        self._functions = functions
        self._signature = signature
        self._addresses = np.zeros(len(functions), np.uintp)
        self._callback = _Load(self._fill)
        _add_symbol(name, self._addresses.ctypes.data)
        _add_symbol(f"{name}_fill", ctypes.cast(self._callback, ctypes.c_void_p).value)

    def is_loaded(self, number: int) -> bool:
        """Return whether function `number` has been compiled or loaded in this process."""
        return bool(self._addresses[number] != 0)

    @cached_property
    def signature(self) -> Signature:
        """The signature of all functions."""
        return self._signature() if callable(self._signature) else self._signature

    def load(self, number: int) -> None:
        """Compile function `number`, or load it from the cache, if that is still to be done."""
        if self.is_loaded(number):
            return
        function = self._functions[number]
        function.compile(self.signature)
        compiled = function.overloads[self.signature.args]
        returned, wanted = compiled.signature.return_type, self.signature.return_type
        if returned != wanted:  # it was compiled for other callers before
            raise TypeError(f"{self._name}: {function.__name__} returns {returned}, not {wanted}")
        name = compiled.fndesc.llvm_func_name
        self._addresses[number] = compiled.library.get_pointer_to_function(name)

    def _fill(self, number: int) -> None:
        """`load` for machine code, which an exception (Ctrl-C) cannot pass."""
        try:
            self.load(number)
        except BaseException as fault:  # noqa: BLE001 - raised again where Python called
            FAULTS.append(fault)

    @cached_property
    def call(self) -> Any:
        """The call for kernels: the function's number, and a tuple of its arguments.

        IndexError for a number outside the table.
        """

        def typed(_typing: Any, _number: Any, given: Any) -> tuple[Signature, Any]:
            for passed, wanted in zip(given, self.signature.args, strict=True):
                if passed != wanted and not _is_safe(passed, wanted):
                    raise TypingError(f"{self._name}: a kernel passes {passed}, not {wanted}")
            signature = _signature(self.signature.return_type, (types.int64, given), None)
            return signature, self._generate

        return _intrinsic(typed)

    def _generate(self, context: Any, builder: Any, signature: Signature, values: Any) -> Any:
        """Generate the call: load the address, let Python fill an empty place, jump."""
        number, packed = values
        count = _WORD(len(self._functions))
        with _if_unlikely(builder, builder.icmp_unsigned(">=", number, count)):
            context.call_conv.return_user_exc(builder, IndexError, ("number outside the table",))
        place = builder.gep(self._table(builder.module), [_WORD(0), number])
        with _if_unlikely(builder, _is_empty(builder, place)):
            fill_type = ir.FunctionType(ir.VoidType(), [_WORD])
            fill = _declared(builder.module, fill_type, f"{self._name}_fill")
            builder.call(fill, [number])
            with _if_unlikely(builder, _is_empty(builder, place)):
                context.call_conv.return_user_exc(builder, NotCompiledError)
        wanted = self.signature.args
        arguments = []
        for index, (passed, to) in enumerate(zip(signature.args[1], wanted, strict=True)):
            value = builder.extract_value(packed, index)
            is_reference = isinstance(to, Reference)
            arguments.append(value if is_reference else context.cast(builder, value, passed, to))
        result_type = signature.return_type
        pointer = context.call_conv.get_function_type(result_type, wanted).as_pointer()
        address = builder.inttoptr(builder.load(place), pointer)
        status, result = context.call_conv.call_function(
            builder, address, result_type, wanted, arguments
        )
        with _if_unlikely(builder, status.is_error):
            context.call_conv.return_status_propagate(builder, status)
        return result

    def _table(self, module: Any) -> Any:
        """Return the table's declaration in a module of machine code."""
        table = module.globals.get(self._name)
        if table is None:
            table = ir.GlobalVariable(module, ir.ArrayType(_WORD, len(self._functions)), self._name)
        return table


def _is_safe(passed: Any, wanted: Any) -> bool:
    """Return whether a number is converted: whole ones to any, others to floating point alone.

    The reference that a kernel made is no local one for the function that it calls.
    """
    if isinstance(wanted, Reference):
        return isinstance(passed, Reference) and passed.of == wanted.of
    if isinstance(wanted, types.Integer):
        return isinstance(passed, types.Integer)
    return isinstance(wanted, types.Float) and isinstance(passed, types.Integer | types.Float)


def _is_empty(builder: Any, place: Any) -> Any:
    return builder.icmp_unsigned("==", builder.load(place), _WORD(0))
