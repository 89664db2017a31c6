"""`Reference`: named tuples of arrays that kernels pass by address.

Numba passes each word of an array as an argument of its own, 270 for a `State`, through every call
and local variable. Of a reference, attributes are loaded where they are read.
`docs/results/2026-11-session-growth.md` has what this saves.
"""

from __future__ import annotations

from typing import Any

import llvmlite.ir as ir
from numba.core import cgutils, types
from numba.core.datamodel import models
from numba.core.errors import TypingError
from numba.core.typing.templates import AttributeTemplate
from numba.extending import infer_getattr, intrinsic, lower_getattr_generic, register_model

# numba's stubs know the types of none of these.
_intrinsic: Any = intrinsic
_Model: Any = models.PrimitiveModel
_Type: Any = types.Type
_Template: Any = AttributeTemplate
_modelled: Any = register_model
_typed: Any = infer_getattr
_lowered: Any = lower_getattr_generic
_stored: Any = cgutils.alloca_once_value
_place_of: Any = cgutils.gep_inbounds


class Reference(_Type):  # type: ignore[misc]
    """Numba's type of a reference to a tuple of type `of`."""

    def __init__(self, of: Any, *, is_local: bool = False) -> None:
        self.of = of
        self.is_local = is_local
        """the function that stores the tuple may read it, so loads must not move before that"""
        super().__init__(name=f"{'Local' if is_local else ''}Reference({of})")

    def member(self, name: str) -> Any:
        """Return the type of an attribute: a named tuple within the tuple is a reference, too."""
        kind = self.of.types[self.of.fields.index(name)]
        is_tuple = isinstance(kind, types.NamedTuple)
        return Reference(kind, is_local=self.is_local) if is_tuple else kind


def _refer(_typing: Any, value: Any) -> Any:
    if isinstance(value, Reference):
        return value(value), lambda _context, _builder, _signature, values: values[0]
    if not isinstance(value, types.NamedTuple):
        raise TypingError(f"by_reference takes a named tuple, not {value}")
    reference = Reference(value, is_local=True)
    return reference(value), lambda _context, builder, _signature, values: _stored(
        builder, values[0]
    )


by_reference: Any = _intrinsic(_refer)
"""For kernels: a reference to a named tuple, or the reference itself.

It is valid until the kernel that calls this returns, or, if that is inlined, until that part of its
caller ends.
"""


@_modelled(Reference)
class _ReferenceModel(_Model):  # type: ignore[misc]
    def __init__(self, manager: Any, reference: Any) -> None:
        pointee = manager.lookup(reference.of).get_value_type()
        super().__init__(manager, reference, pointee.as_pointer())


@_typed
class _ReferenceMembers(_Template):  # type: ignore[misc]
    key = Reference

    def generic_resolve(self, reference: Any, name: str) -> Any:
        return reference.member(name) if name in reference.of.fields else None


@_lowered(Reference)  # type: ignore[untyped-decorator]
def _generate_member(context: Any, builder: Any, reference: Any, value: Any, name: str) -> Any:
    place = _place_of(builder, value, 0, reference.of.fields.index(name))
    member = reference.member(name)
    if isinstance(member, Reference):
        return place
    return _loaded(builder, place, context.get_value_type(member), not reference.is_local)


def _loaded(builder: Any, place: Any, wanted: Any, is_constant: bool) -> Any:
    """Load word by word: the compiler leaves out those that are not used."""
    if not isinstance(wanted, ir.LiteralStructType | ir.ArrayType):
        word = builder.load(place)
        if is_constant:  # then the compiler may load a word where it is needed
            word.set_metadata("invariant.load", builder.module.add_metadata([]))
        return word
    whole = ir.Constant(wanted, ir.Undefined)
    for index, part in enumerate(_parts(wanted)):
        word = _loaded(builder, _place_of(builder, place, 0, index), part, is_constant)
        whole = builder.insert_value(whole, word, index)
    return whole


def _parts(wanted: Any) -> Any:
    if isinstance(wanted, ir.ArrayType):
        return [wanted.element] * wanted.count
    return wanted.elements
