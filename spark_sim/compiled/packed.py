"""`packing`: a named tuple of arrays passed by reference from one kernel to another.

Numba passes each word of a tuple's arrays as an argument of its own: 270 for a `State`. A kernel
that calls another one for every choice writes them down once, and hands on their address.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import llvmlite.ir as ir
from numba.core import cgutils, types
from numba.core.errors import TypingError
from numba.extending import intrinsic

# numba's stubs know the types of none of these.
_intrinsic: Any = intrinsic
_stored: Any = cgutils.alloca_once_value
_place_of: Any = cgutils.gep_inbounds


def packing(make_type: Callable[[], Any]) -> tuple[Any, Any]:
    """Return two functions for kernels: `packed(value) -> address`, `unpacked(address) -> value`.

    An address is valid until the kernel that packed the value returns, or, if it is inlined, until
    that part of its caller ends.

    Args:
        make_type: returns numba's type of the tuple, when a kernel that uses it is compiled.
    """

    def packed(_typing: Any, value: Any) -> Any:
        if value != make_type():
            raise TypingError(f"a kernel packs {value}, not {make_type()}")
        return types.int64(value), _generate_packed

    def unpacked(_typing: Any, _address: Any) -> Any:
        return make_type()(types.int64), _generate_unpacked

    return _intrinsic(packed), _intrinsic(unpacked)


def _generate_packed(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
    place = _stored(builder, values[0])
    return builder.ptrtoint(place, ir.IntType(64))


def _generate_unpacked(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    wanted = context.get_value_type(signature.return_type)
    return _loaded(builder, builder.inttoptr(values[0], wanted.as_pointer()), wanted)


def _loaded(builder: Any, place: Any, wanted: Any) -> Any:
    """Load word by word: the compiler leaves out those that are not used."""
    if not isinstance(wanted, ir.LiteralStructType | ir.ArrayType):
        word = builder.load(place)
        # No kernel writes there, so a word may be loaded where it is needed.
        word.set_metadata("invariant.load", builder.module.add_metadata([]))
        return word
    whole = ir.Constant(wanted, ir.Undefined)
    for index, part in enumerate(_parts(wanted)):
        word = _loaded(builder, _place_of(builder, place, 0, index), part)
        whole = builder.insert_value(whole, word, index)
    return whole


def _parts(wanted: Any) -> Any:
    if isinstance(wanted, ir.ArrayType):
        return [wanted.element] * wanted.count
    return wanted.elements
