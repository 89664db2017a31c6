"""`DecisionLogFiles`: path and bounds of a decision log."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from decima.spark.checks import check_count


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

    @property
    def all(self) -> list[Path]:
        """Paths of all files, the newest first."""
        names = [self.path.name, *(f"{self.path.name}.{n}" for n in range(1, self.files))]
        return [self.path.with_name(name) for name in names]

    @classmethod
    def of(cls, where: DecisionLogFiles | Path | str) -> DecisionLogFiles:
        """Return the files of a path, with the default bounds."""
        return where if isinstance(where, DecisionLogFiles) else cls(Path(where))
