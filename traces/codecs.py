"""The compressed streams that Spark and others write, opened as plain bytes.

Spark names the codec in the file's suffix; here the first bytes decide, so that renamed files and
logs in progress open as well. ``zstd`` is the usual frame format. For ``lz4`` Spark writes the
LZ4Block framing of lz4-java, and the `lz4` command its usual frames; both open. ``snappy`` is the
stream format of snappy-java.

A small file can unfold to more than any machine can process, so a codec's output is bounded by its
input, in bytes and in lines. A zip archive holds files, not a stream: `traces.spark_log.files`.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import BinaryIO, cast

import pyarrow as pa

from traces.errors import DamageError

PIECE_BYTES = 1 << 14
"""bytes read at once from a stream; at most so many are lost where a file breaks off"""
MAX_BLOCK_BYTES = 1 << 25  # a block that claims to be larger is damaged (lz4-java's own limit)

FREE_BYTES = 1 << 26  # content that a compressed file of any size may unfold to
MAX_RATIO = 2_000
"""bytes that each compressed byte may unfold to beyond `FREE_BYTES`; logs of Spark reach 1,000"""
FREE_LINES = 1_000_000
"""lines that a compressed file of any size may unfold to, empty ones included"""
MAX_LINES_PER_BYTE = 2
"""lines that each compressed byte may unfold to beyond `FREE_LINES`; tables reach 0.1"""

ZIP_MAGIC = b"PK\x03\x04"
_LZ4_MAGIC = b"LZ4Block"
_LZ4_HEADER = 21  # magic, token, compressed size, size, checksum
_LZ4_STORED, _LZ4_COMPRESSED = 0x10, 0x20
_SNAPPY_MAGIC = b"\x82SNAPPY\x00"
_SNAPPY_HEADER = 16  # magic, version, compatible version


def open_codec(stream: BinaryIO) -> Iterator[bytes]:
    """The decompressed content of `stream`, in pieces of bounded size.

    DamageError while iterating, where the data is damaged, ends too early or unfolds to more than
    the bounds of this module; the content before that point has been given out.
    """
    start = stream.read(16)
    stream.seek(0)
    for magic, decompress in _CODECS.items():
        if start.startswith(magic):
            packed = _Counted(stream)
            yield from Allowance(packed.count).within(decompress(cast(BinaryIO, packed)))
            return
    while piece := stream.read(PIECE_BYTES):
        yield piece


def most_unfolded(packed_bytes: int) -> int:
    """Upper bound of the bytes that a compressed file of this size may unfold to."""
    return FREE_BYTES + MAX_RATIO * packed_bytes


class _Counted(io.RawIOBase):
    """A stream that counts the bytes read from it."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._num_bytes = 0

    def read(self, size: int = -1) -> bytes:
        content = self._stream.read(size)
        self._num_bytes += len(content)
        return content

    def count(self) -> int:
        """Return how many bytes were read."""
        return self._num_bytes

    def readable(self) -> bool:
        return True


class Allowance:
    """What compressed bytes may unfold to, in bytes and in lines, over one stream or several."""

    def __init__(self, packed_bytes: Callable[[], int]) -> None:
        """`packed_bytes`: how many compressed bytes there are, or were read so far."""
        self._packed_bytes = packed_bytes
        self._num_bytes = self._lines = 0

    def within(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        """The pieces, as far as all together are in proportion to the compressed bytes."""
        for piece in pieces:
            self._num_bytes += len(piece)
            self._lines += piece.count(b"\n")
            packed_bytes = self._packed_bytes()
            if self._num_bytes > most_unfolded(packed_bytes):
                raise DamageError(
                    f"{packed_bytes:,} compressed bytes unfold to more than {MAX_RATIO:,} times as "
                    "many"
                )
            if self._lines > FREE_LINES + MAX_LINES_PER_BYTE * packed_bytes:
                raise DamageError(
                    f"{packed_bytes:,} compressed bytes unfold to more than {self._lines - 1:,} "
                    "lines"
                )
            yield piece


class PieceStream(io.RawIOBase):
    """A stream of pieces; it goes back to the beginning as long as the first piece is held."""

    def __init__(self, pieces: Iterator[bytes | OSError]) -> None:
        """`pieces`: an error in place of one is raised when it is reached."""
        self._pieces = pieces
        self._held = b""
        self._at = 0
        self._count = 0

    def read(self, size: int = -1) -> bytes:
        """Read exactly `size` bytes, fewer only at the end of the file."""
        parts: list[bytes] = []
        while size > 0:
            if self._at == len(self._held) and not self._next():
                break
            part = self._held[self._at : self._at + size]
            self._at += len(part)
            size -= len(part)
            parts.append(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def readable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        """Seek to the beginning, the only supported position."""
        if offset != 0 or whence != 0 or self._count > 1:
            raise io.UnsupportedOperation("only to the beginning, before a second piece was read")
        self._at = 0
        return 0

    def _next(self) -> bool:
        piece = next(self._pieces, None)
        if isinstance(piece, OSError):
            raise piece
        if piece is None:
            return False
        self._held, self._at, self._count = piece, 0, self._count + 1
        return True


def _arrow(codec: str) -> Callable[[BinaryIO], Iterator[bytes]]:
    def pieces(stream: BinaryIO) -> Iterator[bytes]:
        try:
            source = pa.CompressedInputStream(pa.PythonFile(stream, mode="r"), codec)
            while piece := source.read(PIECE_BYTES):
                yield piece
        except (OSError, pa.ArrowException) as error:
            raise DamageError(f"{codec}: {error}") from error

    return pieces


def _lz4_blocks(stream: BinaryIO) -> Iterator[bytes]:
    """LZ4Block: a chain of blocks, each with a header; a block of size 0 ends one chain.

    The blocks' checksums (xxhash) are not verified: a damaged event is found when it is parsed.
    """
    codec = pa.Codec("lz4_raw")
    while header := stream.read(_LZ4_HEADER):
        if len(header) < _LZ4_HEADER or not header.startswith(_LZ4_MAGIC):
            raise DamageError("lz4: the file breaks off or a block lacks its header")
        method = header[8] & 0xF0
        packed_size = int.from_bytes(header[9:13], "little")
        size = int.from_bytes(header[13:17], "little")
        if max(packed_size, size) > MAX_BLOCK_BYTES or method not in (_LZ4_STORED, _LZ4_COMPRESSED):
            raise DamageError("lz4: a block header is damaged")
        packed = _exactly(stream, packed_size, "lz4")
        if method == _LZ4_STORED:
            yield packed
        elif size > 0:
            yield _decompressed(codec, packed, size, "lz4")


def _snappy_blocks(stream: BinaryIO) -> Iterator[bytes]:
    """snappy-java: a header, then blocks, each after its size (4 bytes, big-endian)."""
    codec = pa.Codec("snappy")
    _exactly(stream, _SNAPPY_HEADER, "snappy")
    while head := stream.read(4):
        if head == _SNAPPY_MAGIC[:4]:  # appended streams begin with a header of their own
            _exactly(stream, _SNAPPY_HEADER - 4, "snappy")
            continue
        packed_size = int.from_bytes(head, "big")
        if len(head) < 4 or packed_size > MAX_BLOCK_BYTES:
            raise DamageError("snappy: the file breaks off or a block header is damaged")
        packed = _exactly(stream, packed_size, "snappy")
        # Its size when unfolded comes first, seven bits in each byte.
        size = 0
        for place, byte in enumerate(packed[:5]):
            size |= (byte & 0x7F) << (7 * place)
            if byte < 0x80:
                break
        else:
            raise DamageError("snappy: a block header is damaged")
        if size > MAX_BLOCK_BYTES:
            raise DamageError("snappy: a block header is damaged")
        yield _decompressed(codec, packed, size, "snappy")


def _exactly(stream: BinaryIO, size: int, codec: str) -> bytes:
    content = stream.read(size)
    if len(content) < size:
        raise DamageError(f"{codec}: the file breaks off")
    return content


def _decompressed(codec: pa.Codec, packed: bytes, size: int, name: str) -> bytes:
    try:
        content: bytes = codec.decompress(packed, decompressed_size=size, asbytes=True)
    except (OSError, pa.ArrowException) as error:
        raise DamageError(f"{name}: a block is damaged") from error
    return content


def _refused(rule: str) -> Callable[[BinaryIO], Iterator[bytes]]:
    """Refuse the stream when it is read, as its peers do."""

    def pieces(_stream: BinaryIO) -> Iterator[bytes]:
        raise DamageError(rule)
        yield b""

    return pieces


_CODECS: dict[bytes, Callable[[BinaryIO], Iterator[bytes]]] = {
    b"\x28\xb5\x2f\xfd": _arrow("zstd"),
    _LZ4_MAGIC: _lz4_blocks,
    b"\x04\x22\x4d\x18": _arrow("lz4"),
    _SNAPPY_MAGIC: _snappy_blocks,
    b"\x1f\x8b": _arrow("gzip"),
    b"ZV": _refused("lzf compression is not supported, only zstd, lz4, snappy and gzip"),
    ZIP_MAGIC: _refused("a zip archive holds files and is no stream: unpack it"),
}
