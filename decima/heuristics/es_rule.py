r"""A small scoring rule whose weights `decima fit-rule` fits: the learned baseline.

Eighteen numbers describe what giving one more executor to a job would mean, and in what kind of
cluster. One hidden layer computes a *gate* (may the job take it?) and a *score* (which job first?):

.. math::
    a_u = \tanh(w_u \cdot x + b_u), \quad
    \text{gate} = c + \sum_u g_u a_u, \quad \text{score} = \sum_u s_u a_u

A job that holds no executor may always take one, so no job starves. The best score wins; the stage
inside the job is the one on the critical path. The winner takes executors one by one while its gate
stays open and its score above that of the second: one decision, not one for each executor.

All numbers are ratios, so a rule does not depend on the unit of time. Six of the last eight
distinguish clusters and workloads, so that one rule can serve many. They are: session or moving
executors, the cost of a move, the number of executors, batch or continuous arrivals, the length of
tasks relative to a typical job, and work inflation.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from decima.heuristics.spec import Numbers, Scratch
from decima.heuristics.stages import Row, on_critical_path
from decima.kernels import kernel, vector_kernel
from spark_sim.observation import Observation
from spark_sim.tables import ANY, DECIMA_SIM, LEAST_WORK_MS, NONE, SESSION, Table

HIDDEN = 14  # units of the hidden layer


class Features(NamedTuple):
    """Features of giving one executor to a job: J jobs, N executors, N / J the fair share.

    The names are part of the parameters' names. Rename a feature when its meaning changes, so that
    files fitted before are refused.
    """

    work: float  # 0.5 log of the job's remaining work / the mean over jobs
    rank: float  # share of jobs with less remaining work, scaled to -1..1
    share: float  # log of the executors that it would hold / the fair share
    cluster: float  # executors that it would hold / N
    local: float  # share of the executors on offer that are in the job already
    source: float  # 1: its stage freed the executors
    tasks: float  # 0.5 log of the tasks left in the stage / the fair share
    jobs: float  # 1 + 0.5 log of J / N
    width: float  # 0.5 log of (remaining work / stage's critical path) / the fair share
    runnable: float  # 1: the stage can start now
    session: float  # 1: slots of one session, which do not move
    moving: float  # 0.5 log of the moving delay / the stage's mean task duration
    executors: float  # 0.5 log of N / 50
    quiet: float  # 0.25 log of the time since a job last arrived x N / mean remaining work
    blocking: float  # 0.25 log of the stage's mean task duration x N / typical work of a job so far
    inflation: float  # 2 log of how much longer tasks take in a job that holds all executors
    wait: float  # 0.5 log of 1 + how long until the stage can start / the moving delay
    free: float  # executors that are left on offer after this one / N


class Surroundings(NamedTuple):
    """Features that are the same for all jobs at one decision."""

    mean_ms: float  # remaining work of a job, mean over jobs
    num_jobs: int  # J
    num_executors: int  # N
    moving_delay_ms: float
    jobs: float  # the four features of these names
    session: float
    executors: float
    quiet: float
    typical_ms: float  # work of a job, geometric mean over all so far
    inflation: float  # the feature of this name
    holds_offered: bool  # a job holds those on offer that are in it, as in decima-sim


class Candidate(NamedTuple):
    """A stage, and its job as it would be before one more executor is given to it."""

    remaining_ms: float  # work of the job that is left
    less: int  # jobs with less
    held: int
    local: int  # executors on offer that are in the job
    on_offer: int
    tasks: int  # of the stage, without an executor
    is_source: bool  # the job's stage freed the executors
    critical_path_ms: float
    mean_ms: float
    runnable: bool
    wait_ms: float  # until it can start, at most


INPUTS = len(Features._fields)
BIAS, TO_GATE, TO_SCORE = INPUTS, INPUTS + 1, INPUTS + 2
"""places among a hidden unit's numbers, which begin with a weight for each feature"""
UNIT = INPUTS + 3
"""numbers of a hidden unit"""
GATE_BIAS = HIDDEN * UNIT
# The score has no bias: one that all jobs share would not change which is best.

PARAMETERS = (
    *(
        f"{part}_{unit}"
        for unit in range(HIDDEN)
        for part in (*Features._fields, "bias", "gate", "score")
    ),
    "gate_bias",
)
"""names of the parameters, in the order of `Numbers`: unit by unit, the gate's bias last"""

_TYPICAL_EXECUTORS = 50.0
_LEAST = 0.01
# Ratios below count as this: near the end of a job their logarithm would drown all else.
_MOST = 8.0
# Longer tasks are limited no further, or a heavy job would starve.
_LONGEST_WAIT = 100.0
# In moving delays; larger values carry no further information.


@kernel
def decide(
    observation: Observation, parameters: Numbers, _scratch: Scratch
) -> tuple[int, int, int]:
    """The eligible job with the best score, and as many executors as it may take at once."""
    around = surroundings(observation)
    best = NONE
    best_score = -math.inf
    second = -math.inf
    for job in observation.active:
        held = observation.jobs[job]["held"]
        if held >= observation.num_executors:
            continue
        stage = on_critical_path(observation, job)
        if stage == NONE:
            continue
        gate, score = gate_and_score(parameters, describe(observation, stage, around, 0))
        if gate <= 0.0 and is_served(observation.jobs[job], around):
            continue
        if best == NONE or score > best_score:
            second = best_score
            best_score = score
            best = stage
        elif score > second:
            second = score
    if best == NONE:
        return NONE, 0, ANY
    return best, extended(observation, parameters, best, around, second), ANY


@kernel
def is_served(job: Row, around: Surroundings) -> bool:
    """Return whether the job holds executors besides those on offer: if not, it may take one."""
    return bool(job["held"] > (job["local"] if around.holds_offered else 0))


@kernel
def extended(
    observation: Observation, parameters: Numbers, stage: int, around: Surroundings, second: float
) -> int:
    """The limit for the job of `stage`: one executor, and more while gate and score allow it."""
    row = observation.stages[stage]
    held = observation.jobs[row["job"]]["held"]
    most = min(
        observation.on_offer, row["num_tasks"] - row["covered"], observation.num_executors - held
    )
    given = 1
    while given < most:
        gate, score = gate_and_score(parameters, describe(observation, stage, around, given))
        if gate <= 0.0 or score <= second:
            break
        given += 1
    return int(held + given)


@kernel
def gate_and_score(parameters: Numbers, features: Features) -> tuple[float, float]:
    """Gate and score of one job. Four independent sums take two fifths of the time of one."""
    gate = parameters[GATE_BIAS]
    score = 0.0
    rest = INPUTS - INPUTS % 4
    for unit in range(HIDDEN):
        weights = parameters[unit * UNIT : (unit + 1) * UNIT]
        one = weights[BIAS]
        two = three = four = 0.0
        for index in range(0, rest, 4):
            one += weights[index] * features[index]
            two += weights[index + 1] * features[index + 1]
            three += weights[index + 2] * features[index + 2]
            four += weights[index + 3] * features[index + 3]
        for index in range(rest, INPUTS):
            one += weights[index] * features[index]
        active = tanh((one + two) + (three + four))
        gate += weights[TO_GATE] * active
        score += weights[TO_SCORE] * active
    return gate, score


@vector_kernel
def tanh(value: float) -> float:
    """Approximate tanh by a quotient of polynomials, within 0.024 and exactly -1 and 1 beyond -3
    and 3.

    The C library's own costs a fifth of an episode (17 against 13.5 ms with 200 jobs).
    """
    value = max(-3.0, min(3.0, value))
    square = value * value
    return value * (27.0 + square) / (27.0 + 9.0 * square)


@kernel
def describe(observation: Observation, stage: int, around: Surroundings, given: int) -> Features:
    """Return the features of one more executor for `stage`, after its job got `given` just now."""
    remaining_ms = observation.jobs[observation.stages[stage]["job"]]["remaining_ms"]
    less = 0
    for job in observation.active:
        if observation.jobs[job]["remaining_ms"] < remaining_ms:
            less += 1
    return features_of(candidate(observation, stage, given, less), around)


@kernel
def candidate(observation: Observation, stage: int, given: int, less: int) -> Candidate:
    """Return `stage` after its job got `given` executors; `less` jobs have less remaining work."""
    row = observation.stages[stage]
    job = observation.jobs[row["job"]]
    return Candidate(
        job["remaining_ms"],
        less,
        job["held"] + given,
        max(0, job["local"] - given),
        observation.on_offer - given,
        row["num_tasks"] - row["covered"] - given,
        row["job"] == observation.source_job,
        row["critical_path_ms"],
        row["mean_ms"],
        row["runnable"] == 1,
        wait_ms(observation.jobs, observation.stages, stage),
    )


@kernel
def wait_ms(jobs: Table, stages: Table, stage: int) -> float:
    """Return a stage's wait for its parents: one mean task, or 0 if it can start.

    Running tasks may be nearly over, and only the first of a chain of stages has begun: this is an
    order of magnitude, computed without the edges.
    """
    longest_ms = 0.0
    if stages[stage]["runnable"] == 1:
        return longest_ms
    row = jobs[stages[stage]["job"]]
    for other in range(row["first_stage"], row["first_stage"] + row["num_stages"]):
        before = stages[other]
        if before["runnable"] == 0 or before["finished"] == before["num_tasks"]:
            continue
        if before["critical_path_ms"] > stages[stage]["critical_path_ms"]:
            longest_ms = max(longest_ms, before["mean_ms"])
    return longest_ms


@kernel
def features_of(at: Candidate, around: Surroundings) -> Features:
    """Compute the features of the candidate."""
    share = around.num_executors / around.num_jobs
    held = at.held + 1
    return Features(
        _half_log(at.remaining_ms, around.mean_ms),
        2.0 * at.less / around.num_jobs - 1.0,
        math.log(held / share),
        held / around.num_executors,
        at.local / at.on_offer,
        1.0 if at.is_source else 0.0,
        0.5 * math.log(max(1, at.tasks) / share),
        around.jobs,
        _half_log(at.remaining_ms, at.critical_path_ms * share),
        1.0 if at.runnable else 0.0,
        around.session,
        _half_log(around.moving_delay_ms, at.mean_ms),
        around.executors,
        around.quiet,
        0.25
        * math.log(max(_LEAST, min(_MOST, at.mean_ms * around.num_executors / around.typical_ms))),
        around.inflation,
        _wait(at.wait_ms, around),
        (at.on_offer - 1) / around.num_executors,
    )


@kernel
def _wait(wait_ms: float, around: Surroundings) -> float:
    """Return the cost of executors that wait for a stage, less what moving them in time saves.

    0 under decima-sim's rules, which do not offer idle executors when a stage ends.
    """
    if wait_ms <= 0.0 or around.session == 1.0 or around.holds_offered:
        return 0.0
    delay_ms = max(around.moving_delay_ms, wait_ms / _LONGEST_WAIT)
    return 0.5 * math.log(1.0 + wait_ms / delay_ms)


@kernel
def surroundings(observation: Observation) -> Surroundings:
    """Return the features that all jobs share."""
    return surroundings_of(observation, mean_remaining_ms(observation))


@kernel
def surroundings_of(observation: Observation, mean_ms: float) -> Surroundings:
    """Return them for a known mean of the jobs' remaining work."""
    quiet_ms = (observation.time_ms - observation.last_arrival_ms) * observation.num_executors
    return Surroundings(
        mean_ms,
        len(observation.active),
        observation.num_executors,
        observation.moving_delay_ms,
        1.0 + 0.5 * math.log(max(1, len(observation.active)) / observation.num_executors),
        1.0 if observation.protocol == SESSION else 0.0,
        0.5 * math.log(observation.num_executors / _TYPICAL_EXECUTORS),
        0.5 * _half_log(quiet_ms, mean_ms),
        max(observation.typical_ms, LEAST_WORK_MS),
        2.0 * observation.inflation,
        observation.protocol == DECIMA_SIM,
    )


@kernel
def _half_log(amount: float, reference: float) -> float:
    """0.5 log of the ratio; 0 where there is nothing to compare with."""
    if reference <= 0.0:
        return 0.0
    return 0.5 * math.log(max(_LEAST, amount / reference))


@kernel
def mean_remaining_ms(observation: Observation) -> float:
    total_ms = 0.0
    for job in observation.active:
        total_ms += observation.jobs[job]["remaining_ms"]
    return total_ms / max(1, len(observation.active))
