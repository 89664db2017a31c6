"""Size bounds of a file: a small file can unfold to more than any machine holds."""

from __future__ import annotations

from dataclasses import dataclass

from traces.files.reading import MAX_JSON_BYTES


@dataclass(frozen=True)
class Bounds:
    """Bounds on what a reader takes in. The defaults are far above the traces that are known here.

    A reader tells which bound it met; whoever has such a file and the memory gives larger ones, and
    writes a smaller trace for the commands, which have no option for it: what one of them could
    import, the next could not read.
    """

    content_bytes: int = 16 * 2**30
    """decompressed content of a log or table that is read as a stream"""
    file_bytes: int = 2**28
    """of a file that is held whole, and of the rows that an importer holds"""
    text_bytes: int = MAX_JSON_BYTES
    """of JSON and CSV"""
    values: int = 20_000_000
    """durations, and in a Parquet file the values of all columns together"""
    stages: int = 1_000_000
    """stages; in a Parquet file their executor levels, of which each has at least one"""
    stages_per_job: int = 10_000


DEFAULT = Bounds()

TO_READ_MORE = "larger traces.bounds.Bounds, given in Python, read more"
"""ends the message of a bound that was met; docs/trace-format.md shows how"""
