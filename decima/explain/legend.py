"""What the columns that a policy is told stand for, and to which reason each belongs.

A reason is what people would call the cause: "work" is told to the network six times over, by the
job's work against several others and by the tasks left in its graph.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

REASONS = (
    "rule",
    "place",
    "work",
    "tasks",
    "held",
    "path",
    "start",
    "waiting",
    "progress",
    "age",
    "cluster",
)
"""in the order in which equal ones are told; "rule": what the fitted rule makes of the choice"""


class Meaning(NamedTuple):
    """Of one column."""

    reason: str
    """one of `REASONS`"""
    text: str


COLUMNS: Mapping[tuple[str, str], Meaning] = {
    ("stage", "demand"): Meaning("waiting", "tasks without an executor / executors, log"),
    ("stage", "covering"): Meaning("waiting", "tasks without an executor / executors on offer"),
    ("stage", "runnable"): Meaning("start", "1: all parents are complete"),
    ("stage", "duration"): Meaning("tasks", "mean seconds of a task / the trace's, log"),
    ("stage", "path"): Meaning("path", "seconds to the end of the job / a task's, log"),
    ("stage", "part"): Meaning("waiting", "work of its waiting tasks / work left in the job"),
    ("stage", "moving"): Meaning("place", "moving delay / mean seconds of its tasks, log"),
    ("stage", "planned"): Meaning("rule", "1: the fitted rule would choose it in this round"),
    ("stage", "place"): Meaning("rule", "stages that the rule would choose before it, log"),
    ("stage", "scarce"): Meaning("place", "share of the executors that cannot hold its tasks"),
    ("stage", "need"): Meaning("place", "memory of a task / that of the largest executors"),
    ("job", "held"): Meaning("held", "executors of the job / all"),
    ("job", "share"): Meaning("held", "executors of the job / an equal share, log"),
    ("job", "idle"): Meaning("held", "1: the job holds no executor"),
    ("job", "local"): Meaning("place", "executors on offer that are in the job / all on offer"),
    ("job", "source"): Meaning("place", "1: the job has freed the executors on offer"),
    ("job", "remaining"): Meaning("work", "work left / work of the trace's mean job, log"),
    ("job", "relative"): Meaning("work", "work left / its mean over the jobs, log"),
    ("job", "shorter"): Meaning("work", "share of the jobs that have less work left"),
    ("job", "undone"): Meaning("progress", "work left / work at arrival"),
    ("job", "age"): Meaning("age", "seconds since arrival / those of the mean job, log"),
    ("job", "wanted"): Meaning("waiting", "tasks of the job without an executor / executors, log"),
    ("job", "gate"): Meaning("rule", "the rule's gate: above 0 it would give the job an executor"),
    ("job", "score"): Meaning("rule", "the rule's score of the job, less the best job's"),
    ("job", "given"): Meaning("rule", "executors that the rule would give the job / all"),
    ("job", "giant"): Meaning("work", "work left / that of a typical job so far, log"),
    ("cluster", "on_offer"): Meaning("cluster", "executors on offer / all"),
    ("cluster", "jobs"): Meaning("cluster", "jobs in the system / executors, log"),
    ("cluster", "count"): Meaning("cluster", "jobs in the system, log"),
    ("cluster", "load"): Meaning("cluster", "work left in all jobs / that of the mean job, log"),
    ("cluster", "working"): Meaning("cluster", "executors that jobs hold / all"),
    ("cluster", "planned"): Meaning("rule", "choices that the rule would make in this round, log"),
    ("cluster", "session"): Meaning("cluster", "1: the slots of one session, which do not move"),
    ("cluster", "executors"): Meaning("cluster", "executors / 50, log"),
    ("cluster", "moving"): Meaning("cluster", "moving delay / the trace's mean task, log"),
    ("cluster", "quiet"): Meaning("cluster", "seconds since a job came / the mean job's, log"),
    ("cluster", "age"): Meaning("cluster", "mean age of the jobs, as in job age"),
    ("cluster", "ages"): Meaning("cluster", "spread of their ages; 0: all came at once"),
    ("cluster", "durations"): Meaning("cluster", "spread of the stages' durations; 0: unknown"),
    ("cluster", "inflation"): Meaning("cluster", "how much longer tasks take where all work, log"),
    ("node", "left"): Meaning("work", "tasks not started, of each stage of the job, log"),
    ("node", "duration"): Meaning("tasks", "mean seconds of a task, of each stage, log"),
    ("node", "working"): Meaning("held", "executors at work, of each stage / all"),
    ("node", "work"): Meaning("work", "work left, of each stage / that of the mean job, log"),
    ("node", "runnable"): Meaning("progress", "1: all parents are complete, of each stage"),
    ("node", "scarce"): Meaning("place", "executors that cannot hold its tasks, of each stage"),
    ("rule", "order"): Meaning("rule", "the fitted rule's order: minus the choices before it"),
}
"""by level and name, as in `decima.explain.attribution.NAMES`"""

LIMIT_COLUMNS: Mapping[str, str] = {
    "limit": "the limit / executors",
    "share": "the limit / an equal share, log",
    "added": "executors that it adds / all",
    "moved": "share of those that would have to move",
    "covering": "those / tasks of the job without an executor",
    "ruled": "1: the rule would give as many",
    "off": "those / what the rule would give, log",
}
"""what is told of a limit, which has no part in which stage is taken"""

CLASS_COLUMNS: Mapping[str, str] = {
    "size": "memory / that of the largest",
    "filled": "memory of a task / that of the class",
    "on_offer": "those on offer / all executors",
    "free": "those on offer / all of the class",
    "count": "all of the class / all executors",
    "larger": "1: smaller ones could hold a task",
    "ruled": "1: the rule would take it",
}
"""what is told of a class of executors for a stage"""
