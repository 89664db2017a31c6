"""Which jobs of a log need another one, as the log proves or as must be feared.

A job can need only what had ended when it was submitted: jobs that overlapped may overlap.

* Data: a job reads the path or table that another wrote, or one of them writes where the other read
  or wrote. Where the log does not name what is read or written (a long list of paths is cut off,
  jobs outside SQL have no plan), the job that may read waits for those that may have written.
* Stored data: of a persisted RDD or of a checkpoint, a job needs those that first computed it.
* Shuffles: a stage is skipped since another job wrote its shuffle.
* Preparations: reading a schema, sampling for a sort. The next job needs them, and they need what
  that one needs.
* Order: Spark jobs of one query, micro-batches of one stream, and Spark jobs outside SQL that one
  place in a library submits one after another, as iterations.

Results that the driver collected and used for a later query are in no log.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from enum import Enum
from functools import partial
from typing import NamedTuple

from traces.spark_log.application import Application, SparkJob
from traces.spark_log.assemble import RecordedJob
from traces.spark_log.dag import root_execution
from traces.spark_log.events import EXECUTION_ID
from traces.spark_log.plans import UNKNOWN_USE, DataUse

_PREPARING = re.compile(
    r"(?:parquet|orc|json|csv|text|xml|load|table|sortBy|sortByKey|zipWithIndex|pivot|"
    r"javaToPython) at "
)
_SAVING = re.compile(r"saveAs\w+ at |runJob at SparkHadoopWriter")
_IN_LIBRARY = re.compile(r"\w+ at \w+\.scala:\d+$")
_STREAM = re.compile(r"runId = ([0-9a-f-]{36})")


class Reason(Enum):
    """Why a job waits for another one."""

    READS = "reads what another wrote"
    WRITES = "writes where another read or wrote"
    MAY_READ = "may read what another wrote: the log does not name it"
    STORED = "reads what another stored: cache, checkpoint"
    SHUFFLE = "uses the shuffle files of another"
    PREPARES = "was prepared by another: schema, sample"
    ORDER = "comes from the same query, stream or loop of a library"


class Dependency(NamedTuple):
    """A job that waits for the end of an earlier one."""

    job: int
    on: int
    reason: Reason
    what: str
    """the path, table or RDD; "" where there is none to name"""


def dependencies(application: Application, jobs: Sequence[RecordedJob]) -> tuple[Dependency, ...]:
    """Return those of the recorded jobs, given by their rows; one for each pair of jobs."""
    finder = _Finder(application, jobs)
    found: dict[tuple[int, int], Dependency] = {}
    for each in (*finder.data(), *finder.stored(), *finder.shuffles(), *finder.orders()):
        found.setdefault((each.job, each.on), each)
    finder.add_preparations(found)
    return tuple(found[pair] for pair in sorted(found))


class _Earlier:
    """Jobs in the order of their starts, without those that need not be named any more.

    A job need not wait for one that another one waited for, if it waits for that one. Of jobs that
    came one after another only the last one so is left, and not a number that grows with each.
    """

    def __init__(self, ended: Callable[[int, int], bool]) -> None:
        self._ended = ended
        self._waited: dict[int, bool] = {}

    def add(self, row: int, *, waited: bool) -> None:
        """Add a job, which may have waited for all of them that had ended before."""
        self._waited[row] = waited or self._waited.get(row, False)

    def before(self, row: int) -> list[int]:
        """Return those that had ended when this job, or one that came earlier, was submitted."""
        ended = [at for at in self._waited if self._ended(at, row)]
        latest = next((at for at in reversed(ended) if self._waited[at]), None)
        if latest is None:
            return ended
        # What comes from now on can wait for the latest, which has ended.
        for at in [at for at in self._waited if self._ended(at, latest)]:
            del self._waited[at]
        return [at for at in ended if at in self._waited]


class _Touched:
    """The jobs that read and wrote each path or table."""

    def __init__(self, ended: Callable[[int, int], bool]) -> None:
        self._users: defaultdict[str, _Earlier] = defaultdict(partial(_Earlier, ended))
        self._writers: defaultdict[str, _Earlier] = defaultdict(partial(_Earlier, ended))
        self._inside: defaultdict[str, set[str]] = defaultdict(set)  # of a folder

    def before(self, row: int, resource: str) -> list[int]:
        """Return the jobs that used the resource, a part of it or a folder that it is in."""
        return [at for name in self._overlapping(resource) for at in self._users[name].before(row)]

    def writers_before(self, row: int, resource: str) -> list[int]:
        """Return the jobs that wrote the resource, a part of it or a folder that it is in."""
        names = self._overlapping(resource)
        return [at for name in names for at in self._writers[name].before(row)]

    def add_reader(self, row: int, resource: str) -> None:
        """Add a job that reads the resource."""
        self._add(resource)
        self._users[resource].add(row, waited=False)

    def add_writer(self, row: int, resource: str) -> None:
        """Add a job that writes the resource, and so waited for all that used it."""
        self._add(resource)
        self._users[resource].add(row, waited=True)
        self._writers[resource].add(row, waited=True)

    def _overlapping(self, resource: str) -> list[str]:
        return [*_folders(resource), *sorted(self._inside.get(resource, ()))]

    def _add(self, resource: str) -> None:
        for folder in list(_folders(resource))[1:]:
            self._inside[folder].add(resource)


class _Finder:
    """The dependencies of the jobs of one application."""

    def __init__(self, application: Application, jobs: Sequence[RecordedJob]) -> None:
        self._application = application
        self._jobs = jobs
        self._order = sorted(range(len(jobs)), key=lambda row: (jobs[row].start_ms, row))
        self._nested: defaultdict[int, list[int]] = defaultdict(list)
        for number, execution in application.sql.items():
            if execution.root is not None:
                self._nested[execution.root].append(number)

    def data(self) -> Iterator[Dependency]:
        """Yield those of paths and tables."""
        touched = _Touched(self._ended)
        writing, writing_unnamed = _Earlier(self._ended), _Earlier(self._ended)
        for row in self._order:
            use = self._use(self._jobs[row])
            for resource in sorted(use.writes):
                earlier = touched.before(row, resource)
                yield from self._needs(row, earlier, Reason.WRITES, resource)
            for resource in sorted(use.reads):
                earlier = touched.writers_before(row, resource)
                yield from self._needs(row, earlier, Reason.READS, resource)
            if use.reads_more:
                yield from self._needs(row, writing.before(row), Reason.MAY_READ, "")
            elif use.reads:
                yield from self._needs(row, writing_unnamed.before(row), Reason.MAY_READ, "")
            for resource in use.reads:
                touched.add_reader(row, resource)
            for resource in use.writes:
                touched.add_writer(row, resource)
            if use.writes or use.writes_more:
                writing.add(row, waited=use.reads_more)
            if use.writes_more:
                writing_unnamed.add(row, waited=use.reads_more or bool(use.reads))

    def stored(self) -> Iterator[Dependency]:
        """Yield those of persisted RDDs and checkpoints."""
        # Of each RDD the jobs that computed it, up to the first that computed all of it.
        computing: defaultdict[int, _Earlier] = defaultdict(partial(_Earlier, self._ended))
        is_complete: set[int] = set()
        for row in self._order:
            stored: dict[int, bool] = {}  # whether the job itself ran a task for each partition
            for number in self._jobs[row].numbers:
                for stage in self._application.jobs[number].stages:
                    ran = self._application.ran.get(stage.stage)
                    for rdd, partitions in stage.stored:
                        is_whole = ran is not None and ran.num_tasks >= partitions
                        stored[rdd] = stored.get(rdd, False) or is_whole
            for rdd, is_whole in stored.items():
                earlier = computing[rdd].before(row)
                yield from self._needs(row, earlier, Reason.STORED, f"RDD {rdd}")
                if rdd not in is_complete:
                    computing[rdd].add(row, waited=True)
                if is_whole:
                    is_complete.add(rdd)

    def shuffles(self) -> Iterator[Dependency]:
        """Yield those of stages that were skipped, since another job wrote their shuffle."""
        ran_with: defaultdict[bytes, list[int]] = defaultdict(list)
        for row in self._order:
            stages = [
                stage
                for number in self._jobs[row].numbers
                for stage in self._application.jobs[number].stages
            ]
            for stage in stages:
                if stage.stage in self._application.ran or not stage.rdds:
                    continue
                earlier = ran_with[stage.rdds]
                if row not in earlier:
                    yield from self._needs(row, earlier, Reason.SHUFFLE, f"stage {stage.stage}")
            for stage in stages:
                ran = self._application.ran.get(stage.stage)
                if ran is not None and ran.is_map and row not in ran_with[stage.rdds]:
                    ran_with[stage.rdds].append(row)

    def orders(self) -> Iterator[Dependency]:
        """Yield those of the jobs of one query, one stream or one loop of a library."""
        latest: defaultdict[Hashable, _Earlier] = defaultdict(partial(_Earlier, self._ended))
        before: str | None = None
        for row in self._order:
            keys: list[Hashable] = []
            spark_jobs = [self._application.jobs[number] for number in self._jobs[row].numbers]
            root = root_execution(self._application, spark_jobs[0])
            if root is not None:
                keys.append(root)
                described = self._application.sql.get(root)
                if described is not None and (run := _STREAM.search(described.description)):
                    keys.append(run[1])
            place = _place(spark_jobs[-1])
            if root is None and place == before and _IN_LIBRARY.match(place):
                keys.append(place)
            elif root is None:
                latest[place] = _Earlier(self._ended)
                keys.append(place)
            before = place if root is None else None
            for key in keys:
                yield from self._needs(row, latest[key].before(row), Reason.ORDER, "")
                latest[key].add(row, waited=True)

    def add_preparations(self, found: dict[tuple[int, int], Dependency]) -> None:
        """Add those of jobs that only prepare the next one, which then need what that one needs."""
        needs: defaultdict[int, list[Dependency]] = defaultdict(list)
        for each in found.values():
            needs[each.job].append(each)
        for row, following in reversed(list(zip(self._order, self._order[1:], strict=False))):
            spark_jobs = [self._application.jobs[number] for number in self._jobs[row].numbers]
            use = self._use(self._jobs[row])
            if not _PREPARING.match(_place(spark_jobs[-1])) or use.writes or use.writes_more:
                continue
            if not self._ended(row, following):
                continue
            inherited: list[Dependency] = []
            looked_at = {each.on: each for each in needs[following] if each.on != row}
            leaders = list(looked_at)
            for on in leaders:  # which grows by what those need that had not ended
                if self._ended(on, row):
                    inherited.append(looked_at[on])
                    continue
                for other in needs[on]:
                    if other.on not in looked_at:
                        looked_at[other.on] = looked_at[on]._replace(on=other.on)
                        leaders.append(other.on)
            for each in (
                Dependency(following, row, Reason.PREPARES, ""),
                *(each._replace(job=row) for each in inherited),
            ):
                if (each.job, each.on) not in found:
                    found[each.job, each.on] = each
                    needs[each.job].append(each)

    def _needs(
        self, row: int, earlier: Iterable[int], reason: Reason, what: str
    ) -> Iterator[Dependency]:
        for on in earlier:
            if self._ended(on, row):
                yield Dependency(row, on, reason, what)

    def _ended(self, earlier: int, row: int) -> bool:
        """Return whether one job had ended when the other one, which comes later, was submitted."""
        first, second = self._jobs[earlier], self._jobs[row]
        is_before = (first.start_ms, earlier) < (second.start_ms, row)
        return is_before and first.end_ms <= second.start_ms

    def _use(self, recorded: RecordedJob) -> DataUse:
        """What a job reads and writes, in all its SQL executions and outside of them."""
        sql = self._application.sql
        executions: dict[int, None] = {}
        use = DataUse()
        for number in recorded.numbers:
            spark_job = self._application.jobs[number]
            root = root_execution(self._application, spark_job)
            if root is None:
                use = use.joined(
                    DataUse(
                        reads_more=any(stage.reads_files for stage in spark_job.stages),
                        writes_more=any(_SAVING.match(stage.place) for stage in spark_job.stages),
                    )
                )
                continue
            own = spark_job.properties.get(EXECUTION_ID)
            executions |= dict.fromkeys((root, *self._nested[root]))
            if own is not None and own.isdecimal():
                executions[int(own)] = None
        for execution in executions:
            use = use.joined(sql[execution].use if execution in sql else UNKNOWN_USE)
        return use


def _place(spark_job: SparkJob) -> str:
    """The action of a Spark job and where it is called: those of its last stage."""
    return max(spark_job.stages, key=lambda stage: stage.stage).place if spark_job.stages else ""


def _folders(resource: str) -> Iterator[str]:
    """Yield a path and all folders that it is in; of a table itself alone."""
    yield resource
    end = resource.rfind("/")
    while end > 0 and not resource[:end].endswith((":", "/")):
        resource = resource[:end]
        yield resource
        end = resource.rfind("/")
