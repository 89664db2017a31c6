"""What a Parquet file unfolds to, told by its pages before any of them is decoded.

The footer says so too, but decoders go by the pages, and nothing makes the two agree. A page begins
with a header in Thrift's compact protocol (parquet.thrift of the format's specification).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow.parquet as pq

_STOP, _TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(
    13
)
_SIZE, _PACKED_SIZE, _DATA, _DICTIONARY, _DATA_V2 = 2, 3, 5, 7, 8
_NUM_VALUES = 1
_MAX_DEPTH = 8
_MAX_VARINT_BYTES = 10


class Unfolded(NamedTuple):
    """What decoding a file takes."""

    values: int
    """in all columns, nulls and empty lists included"""
    num_bytes: int
    """of decompressed pages"""


def unfolded(data: bytes, metadata: pq.FileMetaData) -> Unfolded:
    """What the pages of a file hold, by their own headers.

    Raises:
        ValueError: a page or its header is damaged.
    """
    values = num_bytes = 0
    for group in range(metadata.num_row_groups):
        for column in range(metadata.num_columns):
            for header in _pages(data, metadata.row_group(group).column(column)):
                values += _num_values(header)
                num_bytes += _count(header.get(_SIZE))
    return Unfolded(values, num_bytes)


def _num_values(header: dict[int, Any]) -> int:
    parts = (header.get(kind) for kind in (_DATA, _DICTIONARY, _DATA_V2))
    return sum(_count(part.get(_NUM_VALUES)) for part in parts if isinstance(part, dict))


def _count(value: object) -> int:
    """A field that should be a count; what is none is not decoded either."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError("a page header is damaged")
    return value


def _pages(data: bytes, chunk: pq.ColumnChunkMetaData) -> Iterator[dict[int, Any]]:
    """The headers of the pages of one column chunk."""
    at = chunk.data_page_offset
    if chunk.has_dictionary_page and chunk.dictionary_page_offset is not None:
        at = min(at, chunk.dictionary_page_offset)
    end = at + chunk.total_compressed_size
    if not 0 <= at <= end <= len(data):
        raise ValueError("a column lies outside the file")
    while at < end:
        header, at = _struct(data, at, 0)
        at += _count(header.get(_PACKED_SIZE))
        yield header


def _struct(data: bytes, at: int, depth: int) -> tuple[dict[int, Any], int]:
    """Numbers and structs by field, and where the struct ends; other fields are passed over."""
    found: dict[int, Any] = {}
    field = 0
    while True:
        head, at = _byte(data, at)
        kind = head & 0x0F
        if kind == _STOP:
            return found, at
        if head >> 4:
            field += head >> 4
        else:
            field, at = _number(data, at)
        value, at = _value(data, at, kind, depth)
        found[field] = value


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
    if kind == _STRUCT and depth < _MAX_DEPTH:
        return _struct(data, at, depth + 1)
    raise ValueError("a page header is damaged")  # lists and maps occur in none


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
    raise ValueError("a page header is damaged")


def _byte(data: bytes, at: int) -> tuple[int, int]:
    if at >= len(data):
        raise ValueError("a page header breaks off")
    return data[at], at + 1
