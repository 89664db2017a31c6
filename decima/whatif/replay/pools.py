"""Pools of Spark's FAIR scheduler, from its allocation file or with its defaults."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree
from xml.sax.saxutils import quoteattr

from traces.errors import TraceError
from traces.files.reading import read_bytes

DEFAULT_POOL = "default"  # where Spark puts jobs that name no pool
MAX_FILE_BYTES = 1 << 20
MAX_WEIGHT = 1_000_000
_FAIR = "FAIR"
_SHARED_SINCE = (3, 3, 2)
# From this version on, the default pool has the scheduler's own mode if there is no file.


@dataclass(frozen=True)
class Pool:
    """One pool; the defaults are those of a pool that no file describes."""

    fair: bool = False  # whether stages inside it share equally (FAIR) instead of queueing (FIFO)
    weight: int = 1
    min_share: int = 0  # slots that it gets before pools that have theirs

    @property
    def mode(self) -> str:
        """Spark's name for the order inside."""
        return _FAIR if self.fair else "FIFO"

    def words(self) -> str:
        return f"{self.mode}, weight {self.weight}, minShare {self.min_share}"


@dataclass(frozen=True)
class Pools:
    """All pools of an application."""

    described: Mapping[str, Pool] = field(default_factory=dict)
    """by name; any other pool has the defaults"""

    def named(self, name: str) -> Pool:
        return self.described.get(name, Pool())

    @classmethod
    def without_file(cls, spark_version: str | None) -> Pools:
        """The pools of an application that has no allocation file."""
        numbers = re.match(r"(\d{1,4})\.(\d{1,4})\.(\d{1,4})", spark_version or "")
        version = tuple(map(int, numbers.groups())) if numbers else _SHARED_SINCE
        return cls({DEFAULT_POOL: Pool(fair=version >= _SHARED_SINCE)})


def read_pools(path: Path) -> Pools:
    """Read an allocation file (``fairscheduler.xml``); TraceError if it breaks a rule."""
    text = read_bytes(path, TraceError, MAX_FILE_BYTES)
    if b"<!" in text.replace(b"<!--", b""):
        raise TraceError(f"{path}: an allocation file has no DOCTYPE")
    try:
        root = ElementTree.fromstring(text)  # noqa: S314 -- no DOCTYPE, so no entities
    except (ElementTree.ParseError, LookupError, ValueError) as error:  # the latter of encodings
        raise TraceError(f"{path}: not an XML file: {error}") from error
    if root.tag != "allocations":
        raise TraceError(
            f"{path}: the root is <{root.tag:.40}>, an allocation file's <allocations>"
        )
    described: dict[str, Pool] = {}
    for element in root.iter("pool"):
        name = element.get("name")
        if not name:
            raise TraceError(f"{path}: pool {len(described) + 1} has no name")
        where = f"{path}: pool {name!r:.60}"
        mode = _text(element, "schedulingMode", "FIFO").upper()
        if mode not in ("FIFO", _FAIR):
            raise TraceError(f"{where}: schedulingMode {mode!r:.40} must be FIFO or FAIR")
        described[name] = Pool(
            mode == _FAIR,
            _number(element, "weight", 1, where, lowest=1),
            _number(element, "minShare", 0, where, lowest=0),
        )
    return Pools(described)


def allocation_file(pools: Pools) -> str:
    rows = "".join(
        f"  <pool name={quoteattr(name)}><schedulingMode>{pool.mode}</schedulingMode>"
        f"<weight>{pool.weight}</weight><minShare>{pool.min_share}</minShare></pool>\n"
        for name, pool in pools.described.items()
    )
    return f"<allocations>\n{rows}</allocations>"


def _text(element: ElementTree.Element, tag: str, default: str) -> str:
    content = element.findtext(tag)
    return content.strip() if content and content.strip() else default


def _number(element: ElementTree.Element, tag: str, default: int, where: str, lowest: int) -> int:
    text = _text(element, tag, str(default))
    if not text.isdecimal() or len(text) > 9 or not lowest <= int(text) <= MAX_WEIGHT:
        raise TraceError(
            f"{where}: {tag} {text!r:.40} must be a whole number, {lowest} to {MAX_WEIGHT:,}"
        )
    return int(text)
