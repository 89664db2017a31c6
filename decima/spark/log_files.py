"""`DecisionLogFiles`, `Lines`: a log of bounded size in a few files, by standard rotation."""

from __future__ import annotations

import logging
import sys
from dataclasses import dataclass
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path

from decima.spark.checks import check_count
from traces.files.writing import open_to_append

LOG = logging.getLogger("decima.spark")


@dataclass(frozen=True)
class DecisionLogFiles:
    """Path and size bounds of a decision log.

    The file is PATH. When it is full it becomes PATH.1, what was PATH.1 becomes PATH.2, and so on;
    the oldest goes. Each begins with the same header. What an earlier session has left is put aside
    likewise.

    Raises:
        AttachError: a bound makes no sense.
    """

    path: Path
    """of the newest lines"""
    max_bytes: int = 16 << 20
    """of each file"""
    files: int = 8
    """number of files, 2 or more; 8 of 16 MiB hold some 200,000 plans"""

    def __post_init__(self) -> None:
        check_count("decision log: files", self.files, 2)
        check_count("decision log: max_bytes", self.max_bytes, 1)

    @classmethod
    def of(cls, where: DecisionLogFiles | Path | str) -> DecisionLogFiles:
        """Return the files of a path, with the default bounds."""
        return where if isinstance(where, DecisionLogFiles) else cls(Path(where))


class Lines(RotatingFileHandler):
    """Lines in files of bounded size."""

    def __init__(self, to: DecisionLogFiles, header: str) -> None:
        """Begin a file; one that is there is put aside.

        Raises:
            OSError: the file cannot be written, or its path is a link.
        """
        super().__init__(to.path, maxBytes=to.max_bytes, backupCount=to.files - 1)
        self._header = header
        self._is_over = False
        if to.path.stat().st_size > 0:
            self.doRollover()
        else:
            self.write(header)

    def _open(self) -> TextIOWrapper:
        # For its owner alone, as Spark's event log: names of jobs may be the text of queries.
        return TextIOWrapper(open_to_append(Path(self.baseFilename), mode=0o600), "utf-8")

    def write(self, line: str) -> None:
        """One line more."""
        if not self._is_over:
            self.handle(logging.makeLogRecord({"msg": line}))

    def doRollover(self) -> None:  # noqa: N802 - the library's name
        super().doRollover()
        assert self.stream is not None  # noqa: S101 - it was opened just now
        self.stream.write(self._header + self.terminator)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the library's name
        """A full disk must not take the scheduler along."""
        self._is_over = True
        LOG.warning("decision log %s ends here: %s", self.baseFilename, sys.exc_info()[1])

    def close(self) -> None:
        self._is_over = True
        super().close()
