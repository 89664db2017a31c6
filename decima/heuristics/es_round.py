"""`es_rule` with one look at the jobs a round: the same choices, bit for bit.

A hidden unit's input is a sum over the features. Of a job that was given nothing since, a choice
changes two of them: what is left on offer (`free`) and the part of it that is in the job (`local`).
One more executor for a job changes three more: `share`, `cluster` and `tasks`. The products of all
others are stored, and added in the order of `es_rule.gate_and_score`.

Most jobs need no evaluation: the slope of `es_rule.tanh` is at most 1, so

.. math:: |\\Delta\\text{score}| \\le \\sum_f |\\Delta x_f| \\sum_u |s_u w_{uf}|

and the gate likewise. Jobs wait in a heap, by what their score can be at most. The network is
evaluated for those on top of it, for all its units at once, and for the executors more that the
chosen job may take, `_LANES` of them at once (`kernels.vector_kernel`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

from decima.heuristics import es_rule
from decima.heuristics.es_rule import (
    BIAS,
    GATE_BIAS,
    HIDDEN,
    INPUTS,
    PARAMETERS,
    TO_GATE,
    UNIT,
    Features,
    Surroundings,
    tanh,
)
from decima.heuristics.rounds import has_room, heapify, is_new, sift_down, sift_up
from decima.heuristics.spec import HeuristicSpec, Numbers, Scratch, shipped_weights
from decima.heuristics.stages import Row, on_critical_path
from decima.kernels import inlined_kernel, kernel, vector_kernel
from spark_sim.observation import Observation
from spark_sim.tables import ANY, NONE
from traces.numbers import Float64

_decide_anew = es_rule.decide

_LESS, _STAGE, _HEAP = range(3)
"""rows of `Scratch.counts`: jobs with less remaining work, the stage of each job, and jobs by
`Scratch.keys`: minus the remaining work, then minus the most that a score can be"""
_CHOSEN, _HAS_WEIGHTS, _SIZE, _DOWN_TO = range(1, 5)
"""places in `Scratch.stored`: the job of the last choice (its place), 1 once there are weights,
entries of the heap, and the executors on offer down to which its bounds hold"""

(
    _X_WORK, _X_RANK, _X_SHARE, _X_CLUSTER, _X_LOCAL, _X_SOURCE, _X_TASKS, _X_JOBS, _X_WIDTH,
    _X_RUNNABLE, _X_SESSION, _X_MOVING, _X_EXECUTORS, _X_QUIET, _X_BLOCKING, _X_INFLATION, _X_WAIT,
    _X_FREE,
) = range(INPUTS)  # fmt: skip
"""places of the features, and so of their weights among a unit's numbers"""

_UNITS = 16
"""hidden units with two of weight 0, so that they fill whole vector registers"""

# Columns of `Scratch.numbers` for a job: ten parts of each hidden unit's input, those of features
# that stay over the round, in the four sums of `es_rule.gate_and_score` ...
(
    _BIAS_AND_WORK, _WIDTH, _EXECUTORS, _WAIT, _SECOND_SUM, _SESSION, _BLOCKING, _JOBS, _MOVING,
    _INFLATION, _END_OF_PARTS,
) = range(0, 11 * _UNITS, _UNITS)  # fmt: skip
# ... then the features that change, now or at the last evaluation; what that gave, and 1 if there
# was one.
_SHARE, _CLUSTER, _TASKS, _LOCAL, _FREE, _GATE, _SCORE, _IS_KNOWN = range(
    _END_OF_PARTS, _END_OF_PARTS + 8
)


class _Changing(NamedTuple):
    """The features that a choice changes."""

    share: float
    cluster: float
    local: float
    tasks: float
    free: float


_LANES = 8
"""executors more for one job that are evaluated at once"""

# `Scratch.shared`: for each hidden unit its weight of each feature, its bias, its parts in gate and
# score, and what it gives; then the gate's bias ...
_GATE_WEIGHT, _SCORE_WEIGHT, _ACTIVE, _GATE_BIAS = range(
    _UNITS * TO_GATE, _UNITS * (TO_GATE + 4), _UNITS
)
# ... what the features `local` and `free` add at most to the gate, then to the score; more than
# rounding adds to each ...
_SLOPES = _GATE_BIAS + 1
_ERROR = _SLOPES + 4
_MEAN_MS = _ERROR + 2
# ... and the features that change, the gate and the score, with each of `_LANES` executors more.
(
    _SHARES, _CLUSTERS, _LOCALS, _ALL_TASKS, _FREES, _GATES, _SCORES,
) = range(_MEAN_MS + 1, _MEAN_MS + 1 + 7 * _LANES, _LANES)  # fmt: skip
_ROUNDING = 1e-10


@kernel
def decide(observation: Observation, parameters: Numbers, scratch: Scratch) -> tuple[int, int, int]:
    """The eligible job with the best score, and as many executors as it may take at once."""
    if not has_room(observation, scratch):
        return _decide_anew(observation, parameters, scratch)
    stored, common = scratch.stored, scratch.shared
    is_first = is_new(observation, scratch)
    if is_first:
        if stored[_HAS_WEIGHTS] != 1:
            _copy_weights(parameters, common)
            stored[_HAS_WEIGHTS] = 1
        common[_MEAN_MS] = es_rule.mean_remaining_ms(observation)
        _rank(observation, scratch)
    around = es_rule.surroundings_of(observation, common[_MEAN_MS])
    if is_first:
        for place in range(len(observation.active)):
            _describe(observation, scratch, around, place)
    elif stored[_CHOSEN] != NONE:
        _describe(observation, scratch, around, stored[_CHOSEN])
    if is_first or observation.on_offer < stored[_DOWN_TO]:
        _bound_all(observation, scratch, around)
    elif stored[_CHOSEN] != NONE:
        _bound(observation, scratch, around, stored[_CHOSEN])
    best, second = _choose(observation, scratch, around)
    stored[_CHOSEN] = best
    if best == NONE:
        return NONE, 0, ANY
    stage = int(scratch.counts[_STAGE, best])
    return stage, _extended(observation, scratch, (stage, best), second), ANY


@kernel
def _choose(observation: Observation, scratch: Scratch, around: Surroundings) -> tuple[int, float]:
    """Return the place of the eligible job with the best score, and the second score.

    Jobs are evaluated in the order of their bounds, up to one that cannot beat the second.
    """
    stored, heap, keys = scratch.stored, scratch.counts[_HEAP], scratch.keys
    best = NONE
    best_score = second = -math.inf
    size = stored[_SIZE]
    last = size
    while size > 0 and -keys[heap[0]] > second:
        place = heap[0]
        size -= 1
        heap[0], heap[size] = heap[size], place
        sift_down(keys, heap, size, 0)
        job, memo = observation.jobs[observation.active[place]], scratch.numbers[place]
        at = _at(job, memo, observation.on_offer, observation.num_executors)
        if at.local != memo[_LOCAL] or at.free != memo[_FREE]:
            _evaluate(scratch.shared, memo, at)
        if memo[_GATE] <= 0.0 and es_rule.is_served(job, around):
            continue
        score = memo[_SCORE]
        if score > best_score or (score == best_score and place < best):
            second, best_score, best = best_score, score, place
        elif score > second:
            second = score
    stored[_SIZE] = size
    for entry in range(size, last):
        if heap[entry] != best:
            _bound(observation, scratch, around, heap[entry])
    return int(best), second


# --- what is stored ------------------------------------------------------------------------------


@kernel
def _bound_all(observation: Observation, scratch: Scratch, around: Surroundings) -> None:
    """Order all jobs by bounds that hold until a quarter of the executors on offer is given."""
    stored = scratch.stored
    stored[_DOWN_TO] = observation.on_offer - observation.on_offer // 4
    stored[_SIZE] = 0
    for place in range(len(observation.active)):
        _bound(observation, scratch, around, place)


@kernel
def _bound(observation: Observation, scratch: Scratch, around: Surroundings, place: int) -> None:
    """Put a job into the heap, by the most that its score can be, if it can be eligible."""
    stored = scratch.stored
    job, memo = observation.jobs[observation.active[place]], scratch.numbers[place]
    if scratch.counts[_STAGE, place] == NONE or job["held"] >= observation.num_executors:
        return
    if memo[_IS_KNOWN] == 0.0:
        _evaluate(
            scratch.shared, memo, _at(job, memo, observation.on_offer, observation.num_executors)
        )
    at = _at(job, memo, stored[_DOWN_TO], observation.num_executors)
    if _most(scratch.shared, memo, at, 0) <= 0.0 and es_rule.is_served(job, around):
        return
    scratch.keys[place] = -_most(scratch.shared, memo, at, 1)
    scratch.counts[_HEAP, stored[_SIZE]] = place
    sift_up(scratch.keys, scratch.counts[_HEAP], stored[_SIZE])
    stored[_SIZE] += 1


@kernel
def _rank(observation: Observation, scratch: Scratch) -> None:
    """Count for each job the jobs with less remaining work."""
    size = len(observation.active)
    order, less = scratch.counts[_HEAP], scratch.counts[_LESS]
    keys = scratch.keys
    for place in range(size):
        order[place] = place
        keys[place] = -observation.jobs[observation.active[place]]["remaining_ms"]
    heapify(keys, order, size)
    for last in range(size - 1, 0, -1):
        order[0], order[last] = order[last], order[0]
        sift_down(keys, order, last, 0)
    for entry in range(size):
        less[order[entry]] = entry
        if entry > 0 and keys[order[entry]] == keys[order[entry - 1]]:
            less[order[entry]] = less[order[entry - 1]]


@kernel
def _describe(observation: Observation, scratch: Scratch, around: Surroundings, place: int) -> None:
    """Store the features of one job."""
    stage = on_critical_path(observation, observation.active[place])
    scratch.counts[_STAGE, place] = stage
    if stage != NONE:
        less = scratch.counts[_LESS, place]
        features = es_rule.features_of(es_rule.candidate(observation, stage, 0, less), around)
        _store(scratch.shared, features, scratch.numbers[place])


@vector_kernel
def _store(common: Float64, features: Features, memo: Float64) -> None:
    """Store the parts of each hidden unit's input that stay over the round."""
    for unit in range(_UNITS):
        memo[_BIAS_AND_WORK + unit] = (
            common[_UNITS * BIAS + unit] + common[_UNITS * _X_WORK + unit] * features.work
        )
        memo[_WIDTH + unit] = common[_UNITS * _X_WIDTH + unit] * features.width
        memo[_EXECUTORS + unit] = common[_UNITS * _X_EXECUTORS + unit] * features.executors
        memo[_WAIT + unit] = common[_UNITS * _X_WAIT + unit] * features.wait
        second = 0.0 + common[_UNITS * _X_RANK + unit] * features.rank
        second = second + common[_UNITS * _X_SOURCE + unit] * features.source
        second = second + common[_UNITS * _X_RUNNABLE + unit] * features.runnable
        memo[_SECOND_SUM + unit] = second + common[_UNITS * _X_QUIET + unit] * features.quiet
        memo[_SESSION + unit] = common[_UNITS * _X_SESSION + unit] * features.session
        memo[_BLOCKING + unit] = common[_UNITS * _X_BLOCKING + unit] * features.blocking
        memo[_JOBS + unit] = common[_UNITS * _X_JOBS + unit] * features.jobs
        memo[_MOVING + unit] = common[_UNITS * _X_MOVING + unit] * features.moving
        memo[_INFLATION + unit] = common[_UNITS * _X_INFLATION + unit] * features.inflation
    memo[_SHARE] = features.share
    memo[_CLUSTER] = features.cluster
    memo[_TASKS] = features.tasks
    memo[_IS_KNOWN] = 0.0


@kernel
def _copy_weights(parameters: Numbers, common: Float64) -> None:
    """Write the weights number by number for all units, and the bounds they give."""
    common[:_MEAN_MS] = 0.0
    common[_GATE_BIAS] = parameters[GATE_BIAS]
    for unit in range(HIDDEN):
        weights = parameters[unit * UNIT : (unit + 1) * UNIT]
        total = 1.0
        for index in range(UNIT):
            common[_UNITS * index + unit] = weights[index]
            total += abs(weights[index])
        for part in range(2):
            slope = abs(weights[TO_GATE + part])
            common[_ERROR + part] += _ROUNDING * slope * total
            common[_SLOPES + 2 * part] += slope * abs(weights[_X_LOCAL])
            common[_SLOPES + 2 * part + 1] += slope * abs(weights[_X_FREE])


# --- the network ---------------------------------------------------------------------------------


@inlined_kernel
def _at(job: Row, memo: Float64, on_offer: int, num_executors: int) -> _Changing:
    """Return the features of giving the job one executor of so many on offer."""
    return _Changing(
        memo[_SHARE],
        memo[_CLUSTER],
        job["local"] / on_offer,
        memo[_TASKS],
        (on_offer - 1) / num_executors,
    )


@inlined_kernel
def _most(common: Float64, memo: Float64, at: _Changing, part: int) -> float:
    """Return the most that the gate (`part` 0) or the score (1) of a known job can be."""
    change = common[_SLOPES + 2 * part] * abs(at.local - memo[_LOCAL])
    change += common[_SLOPES + 2 * part + 1] * abs(at.free - memo[_FREE])
    return float(memo[_GATE + part] + change + common[_ERROR + part])


@vector_kernel
def _evaluate(common: Float64, memo: Float64, at: _Changing) -> None:
    """Store gate and score of one job, as `es_rule.gate_and_score` gives them."""
    for unit in range(_UNITS):
        first = memo[_BIAS_AND_WORK + unit] + common[_UNITS * _X_LOCAL + unit] * at.local
        first = first + memo[_WIDTH + unit] + memo[_EXECUTORS + unit] + memo[_WAIT + unit]
        first = first + common[_UNITS * _X_FREE + unit] * at.free
        third = 0.0 + common[_UNITS * _X_SHARE + unit] * at.share
        third = third + common[_UNITS * _X_TASKS + unit] * at.tasks
        third = third + memo[_SESSION + unit] + memo[_BLOCKING + unit]
        fourth = 0.0 + common[_UNITS * _X_CLUSTER + unit] * at.cluster + memo[_JOBS + unit]
        fourth = fourth + memo[_MOVING + unit] + memo[_INFLATION + unit]
        common[_ACTIVE + unit] = tanh((first + memo[_SECOND_SUM + unit]) + (third + fourth))
    gate = common[_GATE_BIAS]
    score = 0.0
    for unit in range(HIDDEN):
        gate += common[_GATE_WEIGHT + unit] * common[_ACTIVE + unit]
        score += common[_SCORE_WEIGHT + unit] * common[_ACTIVE + unit]
    memo[_GATE], memo[_SCORE], memo[_LOCAL], memo[_FREE] = gate, score, at.local, at.free
    memo[_IS_KNOWN] = 1.0


# --- the limit -----------------------------------------------------------------------------------


@kernel
def _extended(
    observation: Observation, scratch: Scratch, best: tuple[int, int], second: float
) -> int:
    """The limit for the job, as `es_rule.extended` gives it. `best` is the stage and the place."""
    common, memo = scratch.shared, scratch.numbers[best[1]]
    stage = observation.stages[best[0]]
    job = observation.jobs[stage["job"]]
    held, left = job["held"], stage["num_tasks"] - stage["covered"]
    share = observation.num_executors / len(observation.active)
    most = min(observation.on_offer, left, observation.num_executors - held)
    for first in range(1, most, _LANES):
        for lane in range(_LANES):
            given = min(first + lane, most - 1)
            common[_SHARES + lane] = _log_ratio(scratch, held + given + 1, share)
            common[_CLUSTERS + lane] = (held + given + 1) / observation.num_executors
            common[_LOCALS + lane] = max(0, job["local"] - given) / (observation.on_offer - given)
            common[_ALL_TASKS + lane] = 0.5 * _log_ratio(scratch, left - given, share)
            common[_FREES + lane] = (observation.on_offer - given - 1) / observation.num_executors
        _evaluate_lanes(common, memo)
        for given in range(first, min(first + _LANES, most)):
            lane = given - first
            if common[_GATES + lane] <= 0.0 or common[_SCORES + lane] <= second:
                return int(held + given)
    return int(held + max(1, most))


@inlined_kernel
def _log_ratio(scratch: Scratch, count: int, share: float) -> float:
    """Return log(count / share): the fair share stays over many choices."""
    if count >= scratch.logs.shape[1]:
        return math.log(count / share)
    if scratch.logs[1, count] != share:
        scratch.logs[0, count] = math.log(count / share)
        scratch.logs[1, count] = share
    return float(scratch.logs[0, count])


@vector_kernel
def _evaluate_lanes(common: Float64, memo: Float64) -> None:
    """Compute gate and score with each of `_LANES` executors more, as `_evaluate` does."""
    for lane in range(_LANES):
        common[_GATES + lane] = common[_GATE_BIAS]
        common[_SCORES + lane] = 0.0
    for unit in range(HIDDEN):
        by_share, by_cluster = common[_UNITS * _X_SHARE + unit], common[_UNITS * _X_CLUSTER + unit]
        by_local, by_tasks = common[_UNITS * _X_LOCAL + unit], common[_UNITS * _X_TASKS + unit]
        by_free = common[_UNITS * _X_FREE + unit]
        bias_and_work, width, executors = (
            memo[_BIAS_AND_WORK + unit],
            memo[_WIDTH + unit],
            memo[_EXECUTORS + unit],
        )
        wait, second, session = memo[_WAIT + unit], memo[_SECOND_SUM + unit], memo[_SESSION + unit]
        blocking, jobs, moving = memo[_BLOCKING + unit], memo[_JOBS + unit], memo[_MOVING + unit]
        inflation = memo[_INFLATION + unit]
        to_gate, to_score = common[_GATE_WEIGHT + unit], common[_SCORE_WEIGHT + unit]
        for lane in range(_LANES):
            first = bias_and_work + by_local * common[_LOCALS + lane]
            first = first + width + executors + wait + by_free * common[_FREES + lane]
            third = 0.0 + by_share * common[_SHARES + lane] + by_tasks * common[_ALL_TASKS + lane]
            third = third + session + blocking
            fourth = 0.0 + by_cluster * common[_CLUSTERS + lane] + jobs + moving + inflation
            active = tanh((first + second) + (third + fourth))
            common[_GATES + lane] += to_gate * active
            common[_SCORES + lane] += to_score * active


HEURISTICS = {
    "es_rule": HeuristicSpec(
        decide,
        "a small scoring rule with fitted weights (`decima fit-rule`)",
        place=110,
        defaults=shipped_weights("es_rule", PARAMETERS),
        inseparable=True,
    )
}
