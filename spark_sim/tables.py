"""The state of one simulation: a few tables of plain numbers that kernels change in place.

Each table is a structured array; its columns are listed here once, with their meaning. Row numbers
serve as ids, and `NONE` stands where there is no row. Times are milliseconds since the start.

The first columns of `JOB` and `STAGE` are what a policy may read (`spark_sim.observation`); the
others are the simulator's own.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from traces.arrays import TraceArrays

Table = NDArray[np.void]

NONE = -1
"""no row: no job, no stage, no executor, no list element"""

ANY = -1
"""placeholder of an executor class: any that fits, the smallest first"""

MAX_CLASSES = 16
"""classes of executors: a stage's `fits` has a bit for each"""

LEAST_WORK_MS = 1.0
"""work below counts as this where a logarithm is taken"""

TIMER = np.dtype([("time_ms", "f8"), ("stage", "i4"), ("executors", "i4")], align=True)
"""what happens at a time of its own: `stage` may start, or, where that is NONE, the session has
`executors` from then on"""

# Executor states:  IDLE -> RUNNING -> IDLE, with MOVING and WAITING (for a stage whose parents
# are not complete) between a decision and the task that it leads to. HELD: a further slot of a task
# that takes several; the first of them is RUNNING.
IDLE, RUNNING, MOVING, WAITING, HELD = range(5)

EXECUTORS, SESSION, DECIMA_SIM = range(3)
"""values of `spark_sim.Protocol`, as plain numbers for the compiler"""

# What `advance` and `assign` report; QUIET: something happened, but no decision is due; FORCED: one
# must be made for the policy, which left everything idle.
DECIDE, DONE, TRUNCATED, ILLEGAL, DEADLOCK, QUIET, FORCED = range(7)

# Order of events at one instant in the default protocol: free executors first, then admit work.
TASK_DONE, EXECUTOR_ARRIVED = range(2)

JOB = np.dtype(
    [
        # what a policy may read
        ("arrival_ms", "f8"),
        ("completion_ms", "f8"),  # NaN until complete
        ("first_stage", "i4"),  # row in STAGE
        ("num_stages", "i4"),
        ("template", "i4"),  # row of the trace
        ("work_ms", "f8"),  # sum over stages of tasks x mean duration, at arrival
        ("remaining_ms", "f8"),  # the same over tasks not yet launched
        ("stages_done", "i4"),
        ("attached", "i4"),  # executors in the job: running, waiting or idle there
        ("held", "i4"),  # executors working for, moving to, waiting in or promised to the job
        ("local", "i4"),  # executors on offer that are in the job already
        ("open_stages", "i4"),  # stages that may be chosen now
        ("limit", "i4"),  # the last parallelism limit that a decision gave it
        # the simulator's own
        ("first_follower", "i4"),  # jobs that are submitted once this one is complete
        ("next_follower", "i4"),  # of those that follow the same job
        ("lag_ms", "f8"),  # from the completion of the job that it follows to its arrival
        ("active", "i1"),
        ("misfits", "i4"),  # stages that want executors and fit none on offer
        ("plan_head", "i4"),  # session: the job's first stage of the plan with tasks to start
        ("plan_tail", "i4"),
        ("plan_slots", "i4"),  # session: those on offer that the job's part of the plan uses
        ("plan_stages", "i4"),  # session: stages of that part
        ("uncovered", "i4"),  # session: tasks of its open stages that no slot covers
        ("critical", "i4"),  # session: its stage on the critical path, choices of the round ignored
        ("changed", "i1"),  # session: a task ended or a stage opened since that part was made
        ("cap", "i2"),  # session: row of CAP; NONE: no cap holds for it
        ("pool", "i4"),  # decima-sim: executors in the job's pool
        ("commit_head", "i4"),  # decima-sim: promises of that pool
        ("commit_tail", "i4"),
    ],
    align=True,
)

STAGE = np.dtype(
    [
        # what a policy may read
        ("job", "i4"),
        ("template", "i4"),  # row of the trace
        ("num_tasks", "i4"),
        ("launched", "i4"),  # tasks started so far
        ("finished", "i4"),
        (
            "covered",
            "i4",
        ),  # tasks launched, plus executors moving, waiting or promised
        ("open", "i1"),  # may be chosen now
        ("runnable", "i1"),  # all parents complete
        ("barrier", "i1"),  # its tasks start all at once
        ("slots", "i4"),  # of one executor, that each task takes
        ("order", "i8"),  # rank by the time of becoming runnable
        ("mean_ms", "f8"),
        ("critical_path_ms", "f8"),
        ("memory_mb", "f8"),  # that each task needs; NaN where the trace lacks it
        ("cpu", "f8"),  # cores, likewise
        ("fits", "i4"),  # bit c: an executor of class c can hold a task
        # the simulator's own
        ("wait_ms", "f8"),  # from the end of its last parent until it may start
        ("parents_running", "i4"),  # parents not complete
        ("parents_uncovered", "i4"),  # parents that still want executors
        ("misfit", "i1"),  # wants executors, and fits none of the classes that were on offer
        ("least_class", "i1"),  # the smallest class that fits
        ("want_next", "i4"),  # neighbours in that class's list of stages that want executors
        ("want_prev", "i4"),
        ("hash", "u8"),  # `durations.stage_hash`; 0 before the first task
        ("level_of", "i4"),  # executors of the job for which `level` was found
        ("level", "i4"),  # `durations.upper_level`
        ("released", "i1"),  # its executors have been offered once it ran out of tasks
        ("plan_place", "i4"),  # session: its index in the plan
        ("plan_next", "i4"),  # session: the next stage of the same job in the plan
        ("members", "i4"),  # decima-sim: executors in the stage's executor set
        ("wait_head", "i4"),  # executors waiting for the stage to become runnable
        ("wait_tail", "i4"),
        ("commit_head", "i4"),  # promises of the executors that its last tasks will free
        ("commit_tail", "i4"),
    ],
    align=True,
)

EXECUTOR = np.dtype(
    [
        ("state", "i1"),
        ("kind", "i1"),  # row of CLASS
        ("job", "i4"),  # the job it is in
        ("stage", "i4"),  # the stage it runs, moves to or waits for
        ("last_stage", "i4"),  # stage of its last task in this job; NONE: the next is fresh
        ("task", "i4"),  # index of the task it runs
        ("idle", "i4"),  # session: room to count an executor's idle slots; 0 otherwise
        ("since_ms", "f8"),  # start of the task or of the move
        ("rank", "i8"),  # of its pending event among those of the same time
        ("next", "i4"),  # neighbours in the list (idle or waiting) it is in
        ("prev", "i4"),
    ],
    align=True,
)

EVENT = np.dtype([("time_ms", "f8"), ("executor", "i4")], align=True)
"""a node of the queue: the executor whose event is the next below it"""

COMMIT = np.dtype([("stage", "i4"), ("kind", "i4"), ("count", "i4"), ("next", "i4")], align=True)
"""`count` executors of a class of the list's owner are promised to `stage` (NONE: to stay idle)"""

CLASS = np.dtype(
    [
        # what a policy may read
        ("memory_mb", "f8"),  # of each executor
        ("cpu", "f8"),  # cores of each
        ("count", "i4"),  # executors
        ("on_offer", "i4"),  # part of the clock's; only the default protocol splits it
        # the simulator's own
        ("idle", "i4"),  # in a job or in none
        ("releasing", "i4"),  # part of the clock's
        ("common", "i4"),  # bit c: class c fits all stages of which this is the smallest that does
        ("want_head", "i4"),  # first of those that want executors; unused in one class
        ("busy_ms", "f8"),  # part of the clock's
        ("idle_mb_ms", "f8"),  # memory that the tasks under way did not need, times their time
    ],
    align=True,
)
"""a class of executors; without classes there is one row, which holds every task"""

IDLE_LIST = np.dtype([("head", "i4"), ("tail", "i4")], align=True)
"""executors of one class that are idle in one job, in the order of becoming idle"""

TASK = np.dtype(
    [
        ("job", "i4"),
        ("stage", "i4"),  # row in STAGE
        ("task", "i4"),
        ("executor", "i4"),
        ("start_ms", "f8"),
        ("finish_ms", "f8"),
    ],
    align=True,
)

CLOCK = np.dtype(
    [
        ("time_ms", "f8"),
        ("time_limit_ms", "f8"),  # infinity: none
        ("moving_delay_ms", "f8"),
        ("warmup_delay_ms", "f8"),
        ("duration_key", "u8"),
        ("protocol", "i8"),
        ("num_executors", "i8"),
        ("num_jobs", "i8"),
        ("num_active", "i8"),
        ("next_arrival", "i8"),  # place in the queue of the next job to arrive
        ("num_admissible", "i8"),  # of `num_queued`: those that enter even if no job ends
        ("next_timer", "i8"),
        ("num_timers", "i8"),  # set so far
        ("each_once", "i8"),  # whether the tasks of a stage share out its durations
        ("present", "i8"),  # session: slots there are, those included that go when their task ends
        ("absent_head", "i4"),  # session: slots there are not
        ("slots_each", "i8"),  # session: of each executor; 0 where every task takes any one slot
        ("last_arrival_ms", "f8"),  # when a job last arrived
        ("mean_gap_ms", "f8"),  # between the jobs that have arrived; infinity before the second
        ("arrived_log", "f8"),  # sum over the jobs that have arrived of log(work_ms)
        ("typical_ms", "f8"),  # work of a job: its geometric mean over those
        ("inflation", "f8"),  # see `spark_sim.setup.inflation_of`
        # event queue
        ("taken", "i8"),  # executor whose event was taken and has not been replaced
        ("sequence", "i8"),  # events pushed so far
        ("runnable_count", "i8"),  # stages that became runnable so far
        # the open round
        ("on_offer", "i8"),
        ("open_stages", "i8"),  # over all jobs
        ("rounds", "i8"),  # opened so far, this one included
        ("num_chosen", "i8"),
        ("source_job", "i8"),  # job whose executors opened the round; NONE: no single one
        ("source_stage", "i8"),  # whose running executors are on offer ahead of time
        ("releasing", "i8"),  # how many of those are left
        ("offered", "i4"),  # bit c: class c had executors on offer when `misfit` was last set
        # executors idle in a job, and in none
        ("idle_in_jobs", "i8"),
        ("unattached", "i8"),
        # free list of COMMIT rows, and decima-sim's promises of the unattached pool
        ("free_commit", "i4"),
        ("commit_head", "i4"),
        ("commit_tail", "i4"),
        ("dispatching", "i4"),  # decima-sim: the one executor to send off now; NONE: a whole pool
        # a session's plan
        ("ask_while_idle", "i8"),  # as in `Cluster`
        ("plan_length", "i8"),
        ("plan_place", "i8"),  # no stage before it can use a slot
        ("plan_stale", "i8"),  # a slot is free that it does not know of, or a stage is used up
        ("plan_spare", "i8"),  # the round ended with slots left on offer
        # what a session's next round will show, over all jobs
        ("counted", "i8"),  # 0: the tables were written to, count anew; 2: leave them at the plan
        ("ending", "i8"),  # slots that run the last tasks of a stage: the sum of `held`
        ("local", "i8"),  # the sum of `local`
        # accounting
        ("tasks_started", "i8"),
        ("busy_ms", "f8"),
        ("moving_ms", "f8"),
        ("first_ms", "f8"),  # part of busy_ms: fresh tasks, whole durations from their start
        ("inflation_ms", "f8"),  # part of busy_ms owed to levels above the lowest
        ("job_time_ms", "f8"),  # integral of the number of jobs in the system
        ("task_events", "i8"),
        ("decisions", "i8"),
        ("forced", "i8"),  # assignments made because the policy left everything idle for ever
        # admission
        ("num_queued", "i8"),  # jobs whose time of arrival is known
        ("max_jobs", "i8"),  # most in the system; others wait until one ends
        ("ask_admission", "i8"),  # as in `Cluster`
        ("place_free", "i8"),  # one of `max_jobs` has ended, and the policy may choose the next
        ("is_admission", "i8"),  # the open round is about the jobs that wait for that place
        # what those that run have in these columns, which are of the others in such a round
        ("running_jobs", "i8"),  # num_active
        ("running_open", "i8"),  # open_stages
        ("running_local", "i8"),  # local
    ],
    align=True,
)


CAP = np.dtype([("slots", "i4"), ("held", "i4")], align=True)
"""the most slots of some jobs of a session together, and those that their tasks hold"""

ALLOCATION = np.dtype(
    [
        # the rules
        ("slots_each", "i4"),  # slots of each executor; 0: there is no dynamic allocation
        ("least", "i4"),  # fewest executors
        ("most", "i4"),
        ("ratio", "f8"),  # of the executors that all waiting tasks need at once
        ("backlog_ms", "f8"),  # tasks wait so long before the first request
        ("sustained_ms", "f8"),  # and so long before each further one
        ("idle_ms", "f8"),  # an executor that is idle for so long goes
        ("start_ms", "f8"),  # from a request to the executor
        # what they have led to
        ("target", "i4"),  # executors that are requested
        ("step", "i4"),  # by how many the target rises next
        ("add_ms", "f8"),  # when; infinity: no task waits
        ("present", "i4"),  # executors
        ("coming", "i4"),  # executors that start
        ("held_ms", "f8"),  # integral of the slots of both
        ("charged_ms", "f8"),  # up to when
    ],
    align=True,
)
"""dynamic allocation of a session's slots; times in ms"""


ANY_LIMIT, FULL_LIMIT, FAIR_LIMIT = range(3)
"""limits that a policy gives: unknown; always the number of slots; always the fair share"""

PLAN = np.dtype(
    [
        ("limits", "i8"),  # of the policy; but for ANY_LIMIT, plans outlast rounds
        ("is_kept", "i8"),  # slots were left over: only jobs that changed may want one
        ("changed_only", "i8"),  # the open round asks about those jobs alone
        ("num_asked", "i8"),
        ("begin", "i8"),  # place in the plan from which the open round appends to it
        ("decisions", "i8"),  # before the open round
        # over the jobs that did not change
        ("slots", "i8"),  # the sum of `plan_slots`
        ("stages", "i8"),  # the sum of `plan_stages`
        # as of the last round
        ("num_executors", "i8"),
        ("limit", "i8"),
    ],
    align=True,
)
"""a session's plan over several rounds"""


class State(NamedTuple):
    """One simulation of J jobs with S stages in all, on N executors of C classes."""

    clock: Table  # (1,) CLOCK
    jobs: Table  # (J,) JOB, by arrival
    stages: Table  # (S,) STAGE, each job's in one run of rows
    executors: Table  # (N,) EXECUTOR
    classes: Table  # (C,) CLASS, small ones first
    running: NDArray[np.int32]  # (S, C) executors that run tasks of a stage; default protocol only
    idle: Table  # (J + 1, C) IDLE_LIST; row 0 is of executors in no job, job j has row j + 1
    events: Table  # (2M,) EVENT, a winner tree; M is N rounded up to a power of two
    commits: Table  # (2N + 2,) COMMIT
    active: NDArray[np.int32]  # (J,) the first `num_active` are the jobs in the system, by arrival
    chosen: NDArray[np.int32]  # (S,) stages chosen in the open round; in a session, the plan
    queue: NDArray[np.int32]  # (J,) the first `num_queued` are jobs; those to come are by arrival
    asked: NDArray[np.int32]  # (J,) the first `num_asked` are the jobs of a round, by arrival; in a
    # round about jobs that wait for a place, the first `running_jobs` are those that run
    plan: Table  # (1,) PLAN
    timers: Table  # (S + changes of the number of slots,) TIMER by time; (0,) without conditions
    allocation: Table  # (1,) ALLOCATION
    caps: Table  # (G,) CAP
    timeline: Table  # (tasks,) TASK, or (0,) if it was not requested
    trace: TraceArrays


def fits(stages: Any, kind: Any) -> Any:
    """Return whether executors of class `kind` can hold a task, for one row of STAGE or many."""
    return (stages["fits"] >> kind) & 1 == 1
