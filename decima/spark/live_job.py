"""`LiveJob`, `LiveStage`: what is known of a job that runs on a live Spark."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import islice

from decima.spark.priors import Prior
from traces.spark_log.names import Query

SHOWN_FINISHED = 100
"""a policy sees so many finished stages of a job, the newest; all of any ordinary job"""
KEPT_FINISHED = 10_000
"""so many are remembered for reviews and for stages that are listed again"""


@dataclass
class LiveStage:
    """State of one stage; counts are those of its newest attempt."""

    num_tasks: int
    """of its newest attempt"""
    all_tasks: int = 0
    """of its largest attempt: a later one may only repeat what was lost"""
    parents: set[int] = field(default_factory=set)
    """rows of the same job"""
    spark_stage: int = -1
    """the id under which it runs or ran last"""
    place: int = 0
    """how many earlier stages of the job have as many tasks"""
    successful: int = 0
    running: int = 0
    is_submitted: bool = False
    """Spark holds tasks of it"""
    is_done: bool = False
    measured: int = 0
    measured_ms: float = 0.0
    prior: Prior | None = None
    """None while it has not been looked up"""
    kept_since_ms: int | None = None
    """since when its tasks have waited for slots that others held, until the first one started"""
    first_launch_ms: int | None = None
    """of the tasks that were measured; times are since the epoch"""
    last_finish_ms: int | None = None

    @property
    def launched(self) -> int:
        return self._at_most_all(self.successful + self.running)

    @property
    def finished(self) -> int:
        return self._at_most_all(self.successful)

    def _at_most_all(self, count: int) -> int:
        return self.num_tasks if self.is_done else min(self.num_tasks, count)


@dataclass
class LiveJob:
    """Stages in the order in which Spark named them."""

    key: str
    name: str
    """for people"""
    arrival_ms: int
    queries: tuple[Query, ...] = ()
    """by which earlier runs of it are known, best first"""
    stages: list[LiveStage] = field(default_factory=list)
    rows_of: dict[bytes, list[int]] = field(default_factory=dict)
    """stages by their RDDs: several where these are shuffled in several ways"""
    open_rows: set[int] = field(default_factory=set)
    """stages that are not done"""
    spark_stages: set[int] = field(default_factory=set)
    """all ids that Spark has given them"""
    execution: str | None = None
    """number of the SQL execution that its newest Spark job is part of"""
    unfinished: set[int] = field(default_factory=set)
    """Spark jobs"""
    submitted: int = 0
    """stages that Spark holds tasks of"""
    running: int = 0
    """tasks"""
    measured: int = 0
    measured_ms: float = 0.0
    seen_ms: int = 0
    """when a Spark job of it last began or ended, or held a task set"""
    done_ms: int | None = None
    """when the last of its Spark jobs ended"""
    _sizes: Counter[int] = field(default_factory=Counter)
    """stages by number of tasks"""

    @property
    def is_active(self) -> bool:
        return bool(self.unfinished) or self.submitted > 0

    def add_stage(self, num_tasks: int) -> int:
        """The row of a new stage."""
        row = len(self.stages)
        self.stages.append(LiveStage(num_tasks, num_tasks, place=self._sizes[num_tasks]))
        self._sizes[num_tasks] += 1
        self.open_rows.add(row)
        return row

    def set_done(self, row: int, is_done: bool) -> None:
        """Set whether the stage is complete: all the output that is needed exists."""
        self.stages[row].is_done = is_done
        (self.open_rows.discard if is_done else self.open_rows.add)(row)

    def shown_rows(self) -> list[int]:
        """The rows that a policy sees: all stages that are not done, and the newest that are."""
        return sorted(self.open_rows | self._newest_done(SHOWN_FINISHED))

    def trim(self) -> dict[int, int]:
        """Forget the oldest finished stages of a job that never ends; new rows by old ones.

        Empty if nothing had to go: it is done once for every `KEPT_FINISHED` stages.
        """
        if len(self.stages) - len(self.open_rows) <= 2 * KEPT_FINISHED:
            return {}
        kept = sorted(self.open_rows | self._newest_done(KEPT_FINISHED))
        new_of = {old: new for new, old in enumerate(kept)}
        self.stages = [self.stages[row] for row in kept]
        for stage in self.stages:
            stage.parents = {new_of[row] for row in stage.parents if row in new_of}
        self.open_rows = {new_of[row] for row in self.open_rows}
        known = {
            rdds: [new_of[row] for row in rows if row in new_of]
            for rdds, rows in self.rows_of.items()
        }
        self.rows_of = {rdds: rows for rdds, rows in known.items() if rows}
        return new_of

    def own_ms(self) -> int | None:
        """Return Spark's own time for the job, from planning to the first decision.

        It is the time with neither running tasks nor waiting for slots that other jobs held. None
        while the job runs, and where Spark did not report when its tasks ran.
        """
        is_told = all(one.last_finish_ms is not None for one in self.stages if one.measured)
        if self.is_active or self.done_ms is None or not is_told:
            return None
        free_ms, since_ms = 0, self.arrival_ms
        for begin_ms, end_ms in sorted(self._busy_ms()):
            free_ms += max(0, begin_ms - since_ms)
            since_ms = max(since_ms, end_ms)
        return free_ms + max(0, self.done_ms - since_ms)

    def _busy_ms(self) -> list[tuple[int, int]]:
        """Return the intervals (begin, end) in which stages ran or waited for slots."""
        found = []
        for stage in self.stages:
            if stage.first_launch_ms is not None and stage.last_finish_ms is not None:
                kept_ms = stage.kept_since_ms
                begin_ms = stage.first_launch_ms if kept_ms is None else kept_ms
                found.append((min(begin_ms, stage.first_launch_ms), stage.last_finish_ms))
        return found

    def _newest_done(self, count: int) -> set[int]:
        newest_first = range(len(self.stages) - 1, -1, -1)
        return set(islice((row for row in newest_first if row not in self.open_rows), count))
