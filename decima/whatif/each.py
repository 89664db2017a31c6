"""Many applications, each by itself: a first look at every log, and a study of the best few.

One log is in memory at a time; of each application only a summary stays. A first look replays the
recorded jobs on their recorded slots, under the recorded policy and a few others, in few draws.
Applications are ranked by the time that their jobs would save.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from decima.rl.parallel.local import HERE
from decima.rl.parallel.pool import WorkerPool
from decima.whatif.replay import Fidelity, Recording, ReplayReport, ReplaySettings, replay
from decima.whatif.replay.breakdown import PARTS
from decima.whatif.replay.check import relative_error, simulated
from decima.whatif.replay.driver import note
from decima.whatif.replay.losses import Losses, losses
from decima.whatif.replay.pools import Pools
from decima.whatif.replay.recording import FAIR, FIFO, ORDERS, recording_of
from decima.whatif.replay.report import USELESS_PERCENT
from decima.whatif.results import WORTH_PERCENT, WhatIf
from decima.whatif.settings import CHECK_DRAWS, WhatIfSettings
from decima.whatif.study import what_if
from spark_sim import SimulationError
from traces.errors import TraceError
from traces.numbers import MS_PER_S, Float64
from traces.spark_log import GroupBy
from traces.spark_log.files import LogFiles, find_logs
from traces.spark_log.reader import Extent, HowToRead, ReadLog, read_log

POLICIES = (FIFO, FAIR, "tuned_srw", "es_rule")
"""that a first look compares; the recorded one joins them"""
MOST_STUDIED = 10
_DRAWS = 3
UNFINISHED, NO_JOBS = "still running or cut short, no job had ended", "no job ran to its end"
COPY, GONE = "a copy of another log", "it was removed or renamed meanwhile"
_NO_EXTENT = Extent(False, 0)


class Ask(NamedTuple):
    """What all first looks and studies share."""

    paths: tuple[Path, ...]
    group_by: GroupBy = GroupBy.SQL
    pools: Pools | None = None
    options: Mapping[str, Any] = {}
    """of `WhatIfSettings`: of the studies; first looks take the seed"""

    @property
    def seed(self) -> int:
        """Of the draws of task durations."""
        return int(self.options.get("seed", 0))


@dataclass(frozen=True)
class Look:
    """Summary of one application."""

    path: str
    """of its log, as messages name it"""
    refusal: str | None = None
    """why it cannot be used; None if it can, else what follows is not known"""
    name: str = ""
    identity: tuple[str, ...] | None = None
    """the same for copies of one log; None where the log lacks the start of its application"""
    extent: Extent = _NO_EXTENT
    jobs: int = 0
    tasks: int = 0
    lines_skipped: int = 0
    parts_s: Mapping[str, float] = field(default_factory=dict)
    """where the time of all jobs went, by part"""
    fidelity: Fidelity | None = None
    """error of the replay under the recorded policy"""
    reference: str = FIFO
    """the recorded policy"""
    avg_jct_s: Mapping[str, float] = field(default_factory=dict)
    """by policy, simulated"""
    best: str | None = None
    """the other policy of lowest average JCT; None where no other is better in every draw"""

    @property
    def is_trusted(self) -> bool:
        return self.fidelity is not None and not self.fidelity.above(USELESS_PERCENT)

    @property
    def saved_s(self) -> float:
        """JCT that all jobs together would save under the best policy."""
        if self.best is None:
            return 0.0
        return self.jobs * (self.avg_jct_s[self.reference] - self.avg_jct_s[self.best])


@dataclass(frozen=True)
class Looks:
    """Summaries of all applications."""

    used: tuple[Look, ...]
    refused: tuple[Look, ...]

    @classmethod
    def of(cls, looks: Iterable[Look]) -> Looks:
        """Divide the looks; of copies of one log the largest is used."""
        largest: dict[tuple[str, ...], Look] = {}
        every = list(looks)
        for look in every:
            if look.identity is not None and look.refusal is None:
                other = largest.get(look.identity)
                if other is None or look.extent > other.extent:
                    largest[look.identity] = look
        every = [
            replace(look, refusal=COPY)
            if look.refusal is None and largest.get(look.identity or (), look) is not look
            else look
            for look in every
        ]
        return cls(
            tuple(look for look in every if look.refusal is None),
            tuple(look for look in every if look.refusal is not None),
        )

    @property
    def trusted(self) -> list[Look]:
        """Those whose replay is close enough for advice."""
        return [look for look in self.used if look.is_trusted]

    def gaining(self) -> list[Look]:
        """Trusted ones that another policy would help, the most saved time first."""
        gaining = [look for look in self.trusted if look.best is not None]
        return sorted(gaining, key=lambda look: -look.saved_s)

    def parts_s(self) -> dict[str, float]:
        """Where the time of all jobs of all applications went."""
        return {name: sum(look.parts_s[name] for look in self.used) for name in PARTS}

    def reasons(self) -> dict[str, list[str]]:
        """The logs that are not used by the reason, the most common first."""
        names: dict[str, list[str]] = {}
        for look in self.refused:
            names.setdefault(str(look.refusal), []).append(look.path)
        return dict(sorted(names.items(), key=lambda item: -len(item[1])))

    def label(self, look: Look) -> str:
        """Name an application: by its log where another one has its name."""
        files = Counter(Path(other.path).name for other in self.used)
        if Counter(other.name for other in self.used)[look.name] == 1:
            return look.name
        return Path(look.path).name if files[Path(look.path).name] == 1 else look.path


class Studied(NamedTuple):
    """The full study of one application."""

    study: WhatIf
    check: ReplayReport
    lost: Losses | None


def look_at_each(
    ask: Ask, *, pool: WorkerPool = HERE, progress: Callable[[int, int], None] | None = None
) -> Looks:
    """Look at every log below the paths; `progress` gets how many were read, and of how many.

    The result does not depend on `pool`. TraceError: there is no log, or none can be used.
    """
    tasks = {path: path for path in _logs_at(ask.paths)}
    looks = []
    for _, look in pool.map(_first_look, ask, tasks, label="first looks"):
        looks.append(look)
        if progress is not None:
            progress(len(looks), len(tasks))
    divided = Looks.of(looks)
    if not divided.used:
        first = divided.refused[0]
        raise TraceError(
            f"none of {len(looks):,} logs can be used, the first: {first.path}: {first.refusal}"
        )
    return divided


def study_each(
    ask: Ask, looks: Sequence[Look], *, pool: WorkerPool = HERE
) -> Iterator[Studied | str]:
    """Yield the full study of each of the applications in their order, or why there is none."""
    tasks = {look.path: look.path for look in looks}
    for _, studied in pool.map(_study, ask, tasks, label="studies"):
        yield studied


@lru_cache(maxsize=1)
def _logs_at(paths: tuple[Path, ...]) -> Mapping[str, LogFiles]:
    # None counts as named: a fault of one log is none of the others.
    return {str(log.path): replace(log, named=False) for log in find_logs(paths)}


def _read(ask: Ask, path: str) -> ReadLog:
    logs = _logs_at(ask.paths)
    if path not in logs:  # each process finds the logs for itself
        raise TraceError(GONE)
    return read_log(logs[path], HowToRead(ask.group_by), note)


def _recording(ask: Ask, path: str, log: ReadLog) -> Recording:
    place = _logs_at(ask.paths)[path].path
    return recording_of([log], [place], group_by=ask.group_by, pools=ask.pools)


def _first_look(ask: Ask, path: str) -> Look:
    try:
        log = _read(ask, path)
        if not log.jobs:
            is_open = log.extent is not None and not log.extent.is_complete
            without_jobs = UNFINISHED if is_open else log.summary.first_line_skipped or NO_JOBS
            return Look(path, _without(path, log.unread or without_jobs))
        recording = _recording(ask, path, log)
        reference = recording.policy(0)
        jct_s: dict[str, Float64] = {}
        for policy in dict.fromkeys((reference, *POLICIES)):
            settings = ReplaySettings(policy=policy, draws=_DRAWS, seed=ask.seed)
            jct_s[policy] = simulated(recording, settings).jct_s[True]
        recorded_s = recording.recorded_ms / MS_PER_S
        error = relative_error(jct_s[reference].mean(axis=0), recorded_s)
        by_draw_s = {policy: values.mean(axis=1) for policy, values in jct_s.items()}
        avg_s = {policy: float(values.mean()) for policy, values in by_draw_s.items()}
        better = [name for name, times in by_draw_s.items() if (times < by_draw_s[reference]).all()]
        # A setting of Spark is preferred to a policy that is hardly better.
        worth_s = WORTH_PERCENT / 100 * avg_s[reference]
        best = min(
            better, key=lambda name: avg_s[name] + (0 if name in ORDERS else worth_s), default=None
        )
        parts_ms = np.array(recording.breakdowns).sum(axis=0)
        return Look(
            path,
            name=log.label,
            identity=log.identity,
            extent=log.extent or _NO_EXTENT,
            jobs=len(recording.trace.jobs),
            tasks=sum(job.num_tasks for job in recording.trace.jobs),
            lines_skipped=log.summary.lines_skipped,
            parts_s=dict(zip(PARTS, (parts_ms / MS_PER_S).tolist(), strict=True)),
            fidelity=Fidelity.of(error),
            reference=reference,
            avg_jct_s=avg_s,
            best=best,
        )
    except (TraceError, SimulationError) as error:
        return Look(path, _without(path, str(error)))


def _without(path: str, why: str) -> str:
    """The reason without the log's own name, so that equal ones count together."""
    return re.sub(rf"{re.escape(path)}[^ ]*: ", "", why)


def _study(ask: Ask, path: str) -> Studied | str:
    try:
        recording = _recording(ask, path, _read(ask, path))
        settings = WhatIfSettings.fitting(recording, **ask.options)
        as_recorded = ReplaySettings(draws=CHECK_DRAWS, seed=settings.seed)
        check = replay(recording, as_recorded)
        return Studied(what_if(recording, settings), check, losses(check, as_recorded))
    except (TraceError, SimulationError) as error:
        return _without(path, str(error))
