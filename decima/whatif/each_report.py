"""Words, tables and JSON of many applications."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.table import Table

from decima.rl.tables import aligned
from decima.whatif.advice import headline
from decima.whatif.each import Look, Looks, Studied
from decima.whatif.replay.report import USELESS_PERCENT, can_be_trusted, shares_words
from decima.whatif.text import percent, seconds
from traces.files.names import counted, some

FORMAT, VERSION = "decima-whatif-each", 1
"""of the JSON form; a change that readers must know of is a new version"""
HEADINGS = (
    "application",
    "jobs",
    "replay error",
    "average JCT",
    "saved",
    "best policy",
    "change",
    "resampled",
)
_MOST_REASONS = 4
_MOST_NAMED = 3
_NAME_WIDTH = 36


class Row(NamedTuple):
    """One of the applications that would gain most."""

    look: Look
    label: str
    verdict: str
    """the first sentence of the full study"""
    best: tuple[str, str, str]
    """the policy that the study recommends, its change of average JCT, and that of resampled"""

    @classmethod
    def of(cls, look: Look, label: str, studied: Studied | str) -> Row:
        """Take the words of a full study, or of why there is none."""
        if isinstance(studied, str):
            return cls(look, label, f"Not studied: {studied}", ("not studied", "", ""))
        study, verdict = studied.study, headline(studied.study, studied.check)
        name = study.best() if can_be_trusted(studied.check) else None
        if name is None:
            return cls(look, label, verdict, ("none for certain", "", ""))
        drawn, second = study.differences(study.policies[name])
        return cls(look, label, verdict, (name, percent(drawn), percent(second)))

    def cells(self) -> tuple[str, ...]:
        look = self.look
        error = "" if look.fidelity is None else f"{look.fidelity.median_error_percent:.1f} %"
        average = seconds(look.avg_jct_s[look.reference])
        return self.label, f"{look.jobs:,}", error, average, time_words(look.saved_s), *self.best


def time_words(time_s: float) -> str:
    return seconds(time_s) if time_s < 3600 else f"{time_s / 3600:,.1f} h"


def words(looks: Looks) -> Iterator[str]:
    """Yield what all applications have in common: the gain, what was read, where the time went."""
    gaining = looks.gaining()
    total_s = sum(look.jobs * look.avg_jct_s[look.reference] for look in looks.trusted)
    saved_s = sum(look.saved_s for look in gaining)
    share = f" ({100 * saved_s / total_s:.0f} %)" if total_s > 0 else ""
    yield (
        f"Of {counted(len(looks.trusted), 'application')} that can be trusted, {len(gaining):,} "
        f"would gain from another policy: {time_words(saved_s)} of {time_words(total_s)} of JCT"
        f"{share}, at a first look."
    )
    jobs = sum(look.jobs for look in looks.used)
    doubtful = len(looks.used) - len(looks.trusted)
    yield (
        f"{counted(len(looks.used) + len(looks.refused), 'log')}: {len(looks.used):,} used "
        f"({counted(jobs, 'job')}), {len(looks.refused):,} not; {doubtful:,} not to be trusted, as "
        f"their replay is more than {USELESS_PERCENT:.0f} % off."
    )
    reasons = looks.reasons()
    for reason, names in list(reasons.items())[:_MOST_REASONS]:
        files = some([Path(name).name for name in names], _MOST_NAMED)
        yield f"Not used, {len(names):,}: {reason} ({files})."
    if len(reasons) > _MOST_REASONS:
        rest = sum(len(names) for names in list(reasons.values())[_MOST_REASONS:])
        yield f"Not used, {rest:,}: other reasons."
    unended = sum(not look.extent.is_complete for look in looks.used)
    skipped = [look for look in looks.used if look.lines_skipped > 0]
    if unended > 0:
        yield f"{counted(unended, 'log')} without an end: jobs that had ended count."
    if skipped:
        lines = sum(look.lines_skipped for look in skipped)
        yield f"{counted(len(skipped), 'log')} with lines that cannot be read ({lines:,})."
    yield shares_words(np.array(list(looks.parts_s().values())))


def table(rows: Sequence[Row]) -> Table:
    grid = aligned(HEADINGS[:1], HEADINGS[1:])
    grid.columns[0].max_width = _NAME_WIDTH
    for row in rows:
        grid.add_row(*row.cells())
    return grid


def to_json(looks: Looks, rows: Sequence[Row]) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "version": VERSION,
        "parts_s": looks.parts_s(),
        "applications": [
            {
                "log": look.path,
                "name": look.name,
                "jobs": look.jobs,
                "tasks": look.tasks,
                "has_end": look.extent.is_complete,
                "lines_skipped": look.lines_skipped,
                "replay": None if look.fidelity is None else vars(look.fidelity),
                "is_trusted": look.is_trusted,
                "policy": look.reference,
                "avg_jct_s": dict(look.avg_jct_s),
                "best": look.best,
                "saved_s": look.saved_s,
                "parts_s": dict(look.parts_s),
            }
            for look in looks.used
        ],
        "not_used": {reason: list(names) for reason, names in looks.reasons().items()},
        "most_gaining": [{"log": row.look.path, "verdict": row.verdict} for row in rows],
    }
