"""Size bounds of a file: a small file can unfold to more than any machine holds."""

from __future__ import annotations

from dataclasses import dataclass

from traces.files.reading import MAX_JSON_BYTES


@dataclass(frozen=True)
class Bounds:
    """Bounds on a reader's input. The defaults are far above all known traces.

    An error names the bound that was exceeded. With enough memory, give larger ones in Python and
    write a smaller trace for the commands. These have no option for it, since the next command
    could not read the result.
    """

    content_bytes: int = 16 * 2**30
    """decompressed content of a log or table that is read as a stream"""
    file_bytes: int = 2**28
    """size of a file read at once, and of the rows that an importer holds"""
    text_bytes: int = MAX_JSON_BYTES
    """size of JSON and CSV"""
    values: int = 100_000_000
    """durations, and in a Parquet file the values of all columns together"""
    stages: int = 10_000_000
    """stages; in a Parquet file their executor levels, of which each has at least one"""
    stages_per_job: int = 10_000


DEFAULT = Bounds()

TO_READ_MORE = "larger traces.bounds.Bounds, given in Python, read more"
"""end of the message of an exceeded bound; docs/trace-format.md shows how"""
