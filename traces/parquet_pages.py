"""Unfolded size of a Parquet file, from its page headers, before any page is decoded.

The footer has the size too, but decoders follow the pages, which may differ. Page headers and the
footer, which locates the pages, are in Thrift's compact protocol (parquet.thrift of the format's
specification). Both are parsed here, since Arrow ends the process when a damaged footer lacks a
column.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from traces.codecs import most_unfolded

_STOP, _TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(
    13
)
_SIZE, _PACKED_SIZE, _DATA, _DICTIONARY, _DATA_V2 = 2, 3, 5, 7, 8
_NUM_VALUES = 1
# Fields of FileMetaData, RowGroup, ColumnChunk and ColumnMetaData.
_ROW_GROUPS, _COLUMNS, _META_DATA = 4, 1, 3
_TOTAL_SIZE, _DATA_OFFSET, _DICTIONARY_OFFSET = 7, 9, 11
_TRAILER_BYTES = 8  # size of the file's end: the length of the footer, and b"PAR1"
_MAX_DEPTH = 8
_LONG_LIST = 15
_MAX_VARINT_BYTES = 10


FREE_VALUES = 2_000_000
"""values that a file of any size may unfold to; each takes some 25 bytes once it is read"""
MAX_VALUES_PER_BYTE = 20
"""values that each byte may unfold to beyond `FREE_VALUES`; recorded traces reach 1"""


class Unfolded(NamedTuple):
    """Memory that decoding a file takes."""

    values: int  # values in all columns, nulls and empty lists included
    num_bytes: int  # size of decompressed pages


def unfolded(data: bytes) -> Unfolded:
    """Return the size of a file's pages by their headers; ValueError if one is damaged."""
    values = num_bytes = 0
    for chunk in _chunks(data):
        for header in _pages(data, chunk):
            parts = (header.get(kind) for kind in (_DATA, _DICTIONARY, _DATA_V2))
            values += sum(_count(part.get(_NUM_VALUES)) for part in parts if isinstance(part, dict))
            num_bytes += _count(header.get(_SIZE))
    return Unfolded(values, num_bytes)


def excess_of(data: bytes, most_values: int, most_bytes: int, to_read_more: str) -> str | None:
    """The bound that decoding a file would exceed, in words; None where it fits.

    A small file may have fewer values, as a run of equal ones takes no room, and fewer bytes of
    decompressed pages. `to_read_more` ends the message of a bound that the caller sets. ValueError
    as for `unfolded`.
    """
    size = unfolded(data)
    for label, count, most, in_proportion in (
        ("values", size.values, most_values, FREE_VALUES + MAX_VALUES_PER_BYTE * len(data)),
        ("bytes", size.num_bytes, most_bytes, most_unfolded(len(data))),
    ):
        if count > min(most, in_proportion):
            words = f"unfolds to {count:,} {label}, at most {min(most, in_proportion):,} are read"
            if most > in_proportion:
                return f"{words} from {len(data):,} bytes"
            return f"{words}{to_read_more}"
    return None


def _chunks(data: bytes) -> Iterator[dict[int, Any]]:
    """The metadata of all column chunks, from the footer."""
    end = len(data) - _TRAILER_BYTES
    begin = end - int.from_bytes(data[end : end + 4], "little")
    if end < 0 or begin < 0:
        raise ValueError("the footer lies outside the file")
    footer, _ = _struct(data, begin, 0)
    for group in _rows(footer.get(_ROW_GROUPS)):
        for column in _rows(group.get(_COLUMNS)):
            chunk = column.get(_META_DATA)
            if not isinstance(chunk, dict):
                raise ValueError("a column is not described")
            yield chunk


def _rows(value: object) -> list[dict[int, Any]]:
    """A field that should be a list of structs."""
    if not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
        raise ValueError("the footer is damaged")
    return value


def _count(value: object) -> int:
    """A field that should be a count; the file is refused otherwise."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError("a header is damaged")
    return value


def _pages(data: bytes, chunk: dict[int, Any]) -> Iterator[dict[int, Any]]:
    """The headers of the pages of one column chunk."""
    at = _count(chunk.get(_DATA_OFFSET))
    if _DICTIONARY_OFFSET in chunk:
        at = min(at, _count(chunk[_DICTIONARY_OFFSET]))
    end = at + _count(chunk.get(_TOTAL_SIZE))
    if not 0 <= at <= end <= len(data):
        raise ValueError("a column lies outside the file")
    while at < end:
        header, at = _struct(data, at, 0)
        at += _count(header.get(_PACKED_SIZE))
        yield header


def _struct(data: bytes, at: int, depth: int) -> tuple[dict[int, Any], int]:
    """Parse a struct: numbers and structs by field, and its end; other fields are skipped."""
    fields: dict[int, Any] = {}
    field = 0
    while True:
        head, at = _byte(data, at)
        kind = head & 0x0F
        if kind == _STOP:
            return fields, at
        if head >> 4:
            field += head >> 4
        else:
            field, at = _number(data, at)
        value, at = _value(data, at, kind, depth)
        fields[field] = value


def _value(data: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind in (_TRUE, _FALSE):
        return kind == _TRUE, at
    if kind in (_I16, _I32, _I64):
        return _number(data, at)
    if kind == _BINARY:
        length, at = _varint(data, at)
        return None, at + length
    if kind in (_BYTE, _DOUBLE):
        return None, at + (1 if kind == _BYTE else 8)
    if depth < _MAX_DEPTH and kind == _STRUCT:
        return _struct(data, at, depth + 1)
    if depth < _MAX_DEPTH and kind in (_LIST, _SET):
        return _list(data, at, depth + 1)
    raise ValueError("a header is damaged")  # maps occur in none


def _list(data: bytes, at: int, depth: int) -> tuple[list[Any], int]:
    head, at = _byte(data, at)
    kind, count = head & 0x0F, head >> 4
    if count == _LONG_LIST:
        count, at = _varint(data, at)
    if count > len(data) - at:  # every element takes a byte at least
        raise ValueError("a header breaks off")
    values = []
    for _ in range(count):
        # A truth value is in the kind of a field, but takes a byte in a list.
        value, at = _value(data, at, _BYTE if kind in (_TRUE, _FALSE) else kind, depth)
        values.append(value)
    return values, at


def _number(data: bytes, at: int) -> tuple[int, int]:
    value, at = _varint(data, at)
    return (value >> 1) ^ -(value & 1), at  # zigzag


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place in range(_MAX_VARINT_BYTES):
        byte, at = _byte(data, at)
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return value, at
    raise ValueError("a header is damaged")


def _byte(data: bytes, at: int) -> tuple[int, int]:
    if at >= len(data):
        raise ValueError("a header breaks off")
    return data[at], at + 1
