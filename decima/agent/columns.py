"""Input columns of the network, and the arrays that hold them.

A model file names the version of the columns that it was trained on. A change of any column, its
scale or its place is a new `FEATURE_VERSION`: a model trained on other columns is refused. N is the
number of executors, J that of jobs in the system, F = N / J the fair share, tau and W the
workload's mean task duration and mean work of a job (`decima.agent.scales.Scales`).

Columns hold what a scheduler observes. None of them is the output of another policy.

The paper's five features (Decima 5.1) are `left`, `duration`, `working` (in the messages),
`on_offer` and `local` (at the heads): the last two are the same for all nodes of an observation
or of a job, so a job's embedding changes only when the job does.
"""

from __future__ import annotations

from typing import NamedTuple

from traces.numbers import Float32, Float64, Int64

FEATURE_VERSION = 10

NODE = (
    "left",  # log(1 + 4 L / N), L: tasks not launched, rounded to quarter powers of two
    "duration",  # log2(mean task duration / tau) / 4
    "working",  # executors that run, move to or wait for it / N
    "work",  # log(1 + 8 L x duration / W)
    "runnable",  # all parents complete
    "scarce",  # 1 - H / N, H: executors that can hold a task of it; 0 where there is one class
)
"""columns of each stage, for the messages"""

LEADING = ("runnable", "moving", "waves", "blocking", "wait")
"""columns of STAGE that the job's columns repeat for its leading stage: the runnable one with the
longest critical path, which heuristics would choose. The limit head sees no stage, but a good limit
depends on how long the next tasks block executors."""

JOB = (
    "held",  # executors of the job / N
    "share",  # log2((held + 1/2) / F) / 4
    "idle",  # 1 if it holds none
    "local",  # executors on offer that are in the job already / all on offer
    "source",  # 1 if the executors on offer were freed by the job
    "remaining",  # log2(work not launched / W) / 4
    "relative",  # log2(work not launched / its mean over jobs) / 4
    "shorter",  # share of the other jobs that have less work left
    "undone",  # work not launched / work at arrival
    "age",  # log(1 + time in the system x N / W) / 4, at most 1
    "wanted",  # log(1 + tasks of open stages without an executor / N)
    "typical",  # log2(work not launched / typical work of a job so far) / 4
    "width",  # log2(work not launched / longest open critical path / F) / 4; +-3 if none is open
    *(f"leading {name}" for name in LEADING),  # 0 if no stage is open
)
"""columns of each job, at the heads"""

STAGE = (
    "demand",  # log(1 + 4 D / N), D: tasks without an executor
    "covering",  # D / executors on offer, at most 1
    "runnable",
    "duration",  # as in NODE
    "path",  # log(1 + critical path from here / (4 tau)) / 4
    "critical",  # critical path from here / the longest of the job's open stages
    "part",  # D x duration / work of the job not launched
    "moving",  # log(1 + moving delay / duration) / 4
    "waves",  # log2(D / F) / 4
    "blocking",  # log2(duration x N / typical work of a job so far) / 4
    # log(1 + longest mean task of the job's unfinished runnable stages whose critical path is
    # longer / duration) / 4, 0 if runnable:
    "wait",
    "scarce",  # as in NODE
    "need",  # memory of a task / that of the largest class; 0 where there is one class
)
"""columns of each stage that may be chosen, at the stage head"""

PATH = ("path", "critical", "wait")
"""columns of STAGE with a stage's position in its job's graph, for the ablation"""

CLUSTER = (
    "on_offer",  # / N
    "offered",  # log2(executors on offer) / 4
    "jobs",  # log2(J / N) / 4 + 1/2
    "count",  # log2(J) / 4
    "load",  # log2(1/16 + work not launched in all jobs / W) / 4
    "typical",  # log2(mean work not launched of a job / typical work of a job so far) / 4
    "working",  # executors held by jobs / N
    "session",  # 1: slots of one session, which do not move
    "holding",  # 1: decima-sim's rules, by which a job holds the executors on offer in it
    "executors",  # log2(N / 50) / 4
    "moving",  # log(1 + moving delay / tau) / 4
    "move",  # log2(moving delay / typical work of a job so far) / 4
    "quiet",  # log(1 + time since a job last arrived x N / W) / 4, at most 1
    "gap",  # log2(mean gap between arrivals x N / W) / 4; 3 before the second job
    "age",  # mean over jobs of their "age"
    "ages",  # standard deviation of it: 0 if all came at once
    "durations",  # that of "duration" over the open stages: 0 if nothing is known of durations
    "inflation",  # log of how much longer tasks take in a job that holds all executors
)
"""columns of the cluster, at the heads"""

LIMIT = (
    "limit",  # l / N
    "share",  # log2(l / F) / 4
    "added",  # (l - held) / N
    "count",  # log2(l - held) / 4
    "moved",  # share of the executors added that come from elsewhere
    "covering",  # (l - held) / tasks of the job's open stages without an executor, at most 1
    "waves",  # log2(those tasks / (l - held)) / 4
    "left",  # executors on offer that are left / all on offer
    "free",  # executors on offer that are left / N
)
"""columns of each parallelism limit l that may be chosen, at the limit head"""

CLASS = (
    "size",  # memory / that of the largest class
    "filled",  # memory of a task / that of the class
    "on_offer",  # executors of the class on offer / N
    "free",  # executors of the class on offer / all of the class
    "count",  # executors of the class / N
    "larger",  # 1 if a smaller class could hold a task
    "smallest",  # 1 if no smaller class on offer can hold a task
)
"""columns of each executor class that a stage may be given, at the class head; none with one
class"""


class Choices(NamedTuple):
    """What may be chosen in B decisions with J jobs in their systems, and its columns.

    O stages may be chosen, M limits, and K classes of executors for stages; K is 0 where there is
    one class.
    """

    stage_x: Float32  # (O, len(STAGE))
    job_x: Float32  # (J, len(JOB))
    cluster_x: Float32  # (B, len(CLUSTER))
    limit_x: Float32  # (M, len(LIMIT))
    class_x: Float32  # (K, len(CLASS))
    decision_of_job: Int64  # (J,)
    job_ptr: Int64  # (B + 1,)
    open_stage: Int64  # (O,) row of the observation's `stages`
    open_job: Int64  # (O,) index among the J jobs
    open_ptr: Int64  # (B + 1,)
    first_open: Int64  # (J + 1,) the first open stage of each job
    limit: Int64  # (M,) the parallelism limits
    limit_job: Int64  # (M,) index among the J jobs
    limit_ptr: Int64  # (J + 1,)
    kind: Int64  # (K,) row of the observation's `classes`
    kind_stage: Int64  # (K,) index among the O stages
    kind_ptr: Int64  # (O + 1,)
    path_ms: Float64  # (J,) scratch: the longest critical path of a job's open stages
    height: Float64  # (J,) scratch
    order: Int64  # (2, J) scratch
    less: Int64  # (J,) scratch: jobs of the same decision with less work left
