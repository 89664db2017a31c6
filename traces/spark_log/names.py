"""Names by which a query is recognised from one run to the next.

One rule for both sides: the importer, which names the jobs of a log, and the planner of a live
session (`Queries.java`), which looks for the earlier runs of what has just been submitted.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from traces.files.names import clean
from traces.model import Job
from traces.trace import Trace

FORMAT = "spark-event-log"  # `Trace.metadata["format"]` of a trace from event logs
NEXT_RUN_MS = 5_000
"""of a job that the application has named: after so long without a Spark job it is another run"""

MANY = 4
"""jobs of one name from which on it may be that of different queries"""
_SHAPES, _WORK = 3, 10.0

_RUN = re.compile(r"(?: #\d+)+$")
_CALL_SITE = re.compile(r"\S+ at \S+:\d+$")
_OF_ANYBODY = re.compile(r"\S+ at NativeMethodAccessorImpl\.java:0$")
# Where pyspark calls Spark, whatever the program.
_STAND_IN = re.compile(r"unnamed (?:job|query) \d+$")
# As `stand_in` makes them.
_BATCH = re.compile(r"\s*\brunId = [0-9a-f-]{36}\s+batch = (?:\d+|init)$")
# What structured streaming adds to the description of a query for each micro-batch.


class Query(NamedTuple):
    """Name of the query that a job is an instance of."""

    name: str
    is_given: bool
    """given by a person; else a place in a program, which may submit many different queries"""


def stand_in(kind: str, number: str) -> str:
    """Return a name for an unnamed "job" or "query" of a log."""
    return f"unnamed {kind} {number}"


def query_of(name: str) -> Query | None:
    """The query of a job so called, whatever its run: "q5 #17" is the seventeenth of q5.

    The micro-batches of a streaming query are runs of one query, too.

    Both sides come here, so a name that is too long to be shown is cut in one way only. None for
    the call site that all of pyspark shares, and for the number that a job without a name is given:
    they identify nothing.
    """
    plain = _BATCH.sub("", _RUN.sub("", clean(name)))
    if not plain or _OF_ANYBODY.match(plain) or _STAND_IN.match(plain):
        return None
    return Query(plain, _CALL_SITE.match(plain) is None)


def query_in(trace: Trace, job: Job) -> Query | None:
    """The query of a job of a trace; without the application, where the trace is from event logs.

    The importer names a job ``APPLICATION/NAME``, with " #2" behind either where it comes again.
    """
    application = _application(trace, job) if trace.metadata.get("format") == FORMAT else None
    if application is None:
        return query_of(job.name)
    return query_of(re.sub(rf"^{re.escape(application)}(?: #\d+)?/", "", job.name))


def shared_names(trace: Trace) -> dict[Query, int]:
    """Names of jobs that cannot all be runs of one query, with the number of their jobs.

    Runs of one query have much the same stages; their tasks grow with the data. A notebook may
    describe all that it runs by its own text. A place in a program is not expected to tell.
    """
    jobs_of: dict[Query, list[Job]] = {}
    for job in trace.jobs:
        query = query_in(trace, job)
        if query is not None and query.is_given:
            jobs_of.setdefault(query, []).append(job)
    return {query: len(jobs) for query, jobs in jobs_of.items() if _differ(jobs)}


def _differ(jobs: Sequence[Job]) -> bool:
    if len(jobs) < MANY:
        return False
    if len({len(job.stages) for job in jobs}) >= _SHAPES:
        return True
    shapes = {tuple(stage.num_tasks for stage in job.stages) for job in jobs}
    work_ms = [job.work_ms for job in jobs]
    return 2 * len(shapes) > len(jobs) and max(work_ms) > _WORK * min(work_ms)


def shared_words(trace: Trace) -> str | None:
    """A sentence on the names that `shared_names` finds; None where there are none."""
    shared = shared_names(trace)
    if not shared:
        return None
    query, count = max(shared.items(), key=lambda item: item[1])
    more = f" (and {len(shared) - 1:,} more such names)" if len(shared) > 1 else ""
    return (
        f"{count:,} of {len(trace.jobs):,} jobs are named {query.name!r:.60}{more}, but their "
        "stages differ too much for runs of one query, as of a notebook: priors would match them "
        "by chance. Set a description or decima.job for each query."
    )


def _application(trace: Trace, job: Job) -> str | None:
    """Return None for a trace with changed metadata."""
    try:
        number = trace.metadata["recorded"][job.name]["application"]
        return str(trace.metadata["applications"][number]["name"])
    except (KeyError, IndexError, TypeError):
        return None
