"""`es_rule` with one look at the jobs a round: the same choices, bit for bit.

A hidden unit's input is a sum over the features. Of a job that was given nothing since, a choice
changes two of them: what is left on offer (`free`) and the part of it that is in the job (`local`).
One more executor for a job changes three more: `share`, `cluster` and `tasks`. The products of all
others are stored, and added in the order of `es_rule.gate_and_score`.

Most jobs need no evaluation: the slope of `es_rule.tanh` is at most 1, so

.. math:: |\\Delta\\text{score}| \\le \\sum_f |\\Delta x_f| \\sum_u |s_u w_{uf}|

and the gate likewise. Where that bound settles the comparison, the network is not evaluated.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from decima.heuristics import es_rule
from decima.heuristics.compiled import Numbers, Scratch
from decima.heuristics.es_rule import HIDDEN, INPUTS, Features, Surroundings, tanh
from decima.heuristics.rounds import has_room, is_new
from decima.heuristics.stages import Row, on_critical_path
from decima.kernels import inlined_kernel, kernel
from spark_sim.observation import Observation
from spark_sim.tables import NONE
from traces.numbers import Float64, Int64

_decide_anew = es_rule.decide

_LESS, _ORDER, _STAGE = range(3)
"""rows of `Scratch.counts`: jobs with less remaining work, jobs by that, the stage of each job"""
_CHOSEN, _HAS_WEIGHTS = 1, 2
"""places in `Scratch.stored`: the job of the last choice (its place), 1 once there are weights"""

# Columns of `Scratch.numbers` for a job: ten parts of each hidden unit's input (`_store`), then:
_SHARE, _CLUSTER, _TASKS, _LOCAL, _FREE, _GATE, _SCORE, _IS_KNOWN = range(
    10 * HIDDEN, 10 * HIDDEN + 8
)
"""features now, and at the last evaluation; what that gave, and 1 if there was one"""


class _Changing(NamedTuple):
    """The features that a choice changes."""

    share: float
    cluster: float
    local: float
    tasks: float
    free: float


# Columns of the last row: of each hidden unit seven weights, and what it gives; then:
_UNIT = INPUTS + 3
_GATE_BIAS = HIDDEN * _UNIT
_WEIGHTS = (2, 3, 4, 6, INPUTS - 1, INPUTS + 1, INPUTS + 2)
"""places in a unit's parameters: of the features that change, its parts in gate and score"""
_ACTIVE = len(_WEIGHTS) * HIDDEN
_SLOPES = _ACTIVE + HIDDEN
"""what a feature that changes adds at most to the gate, five of them, then to the score"""
_ERROR = _SLOPES + 10
"""more than rounding adds to the gate, then to the score"""
_MEAN_MS = _ERROR + 2
_ROUNDING = 1e-10


@kernel
def decide(seen: Observation, parameters: Numbers, scratch: Scratch) -> tuple[int, int]:
    """The eligible job with the best score, and as many executors as it may take at once."""
    if not has_room(seen, scratch):
        return _decide_anew(seen, parameters, scratch)
    around = _look(seen, parameters, scratch)
    common = scratch.numbers[-1]
    best = NONE
    best_score = second = -math.inf
    for place in range(len(seen.active)):
        job = seen.jobs[seen.active[place]]
        if scratch.counts[_STAGE, place] == NONE or job["held"] >= seen.num_executors:
            continue
        own = scratch.numbers[place]
        is_served = es_rule.is_served(job, around)
        at = _now(seen, job, own)
        if own[_IS_KNOWN] == 1.0 and best != NONE:
            if _most(common, own, at, 0) <= 0.0 and is_served:
                continue
            if _most(common, own, at, 1) <= second:
                continue
        _evaluate(parameters, common, own, at)
        if own[_GATE] <= 0.0 and is_served:
            continue
        if best == NONE or own[_SCORE] > best_score:
            second = best_score
            best_score = own[_SCORE]
            best = place
        elif own[_SCORE] > second:
            second = own[_SCORE]
    scratch.stored[_CHOSEN] = best
    if best == NONE:
        return NONE, 0
    stage = int(scratch.counts[_STAGE, best])
    return stage, _extended(seen, parameters, scratch, (stage, best), second)


# --- what is stored ------------------------------------------------------------------------------


@kernel
def _look(seen: Observation, parameters: Numbers, scratch: Scratch) -> Surroundings:
    """Describe the jobs that changed since the last choice: in a new round all."""
    stored, common = scratch.stored, scratch.numbers[-1]
    if not is_new(seen, scratch):
        around = es_rule.surroundings_of(seen, common[_MEAN_MS])
        if stored[_CHOSEN] != NONE:
            _describe(seen, parameters, scratch, around, stored[_CHOSEN])
        return around
    if stored[_HAS_WEIGHTS] != 1:
        _copy_weights(parameters, common)
        stored[_HAS_WEIGHTS] = 1
    common[_MEAN_MS] = es_rule.mean_remaining_ms(seen)
    around = es_rule.surroundings_of(seen, common[_MEAN_MS])
    _rank(seen, scratch)
    for place in range(len(seen.active)):
        _describe(seen, parameters, scratch, around, place)
    return around


@kernel
def _rank(seen: Observation, scratch: Scratch) -> None:
    """Count for each job the jobs with less remaining work."""
    size = len(seen.active)
    order, less = scratch.counts[_ORDER], scratch.counts[_LESS]
    for place in range(size):
        order[place] = place
    for entry in range(size // 2 - 1, -1, -1):
        _sift_down(seen, order, size, entry)
    for last in range(size - 1, 0, -1):
        order[0], order[last] = order[last], order[0]
        _sift_down(seen, order, last, 0)
    for entry in range(size):
        less[order[entry]] = entry
        if entry > 0 and _work_ms(seen, order[entry]) == _work_ms(seen, order[entry - 1]):
            less[order[entry]] = less[order[entry - 1]]


@kernel
def _sift_down(seen: Observation, order: Int64, size: int, entry: int) -> None:
    """Move the entry of a heap with the most work on top down to its place."""
    moved = order[entry]
    while 2 * entry + 1 < size:
        below = 2 * entry + 1
        if below + 1 < size and _work_ms(seen, order[below + 1]) > _work_ms(seen, order[below]):
            below += 1
        if _work_ms(seen, order[below]) <= _work_ms(seen, moved):
            break
        order[entry] = order[below]
        entry = below
    order[entry] = moved


@inlined_kernel
def _work_ms(seen: Observation, place: int) -> float:
    return float(seen.jobs[seen.active[place]]["remaining_ms"])


@kernel
def _describe(
    seen: Observation, parameters: Numbers, scratch: Scratch, around: Surroundings, place: int
) -> None:
    """Store the features of one job."""
    stage = on_critical_path(seen, seen.active[place])
    scratch.counts[_STAGE, place] = stage
    if stage != NONE:
        less = scratch.counts[_LESS, place]
        features = es_rule.features_of(es_rule.candidate(seen, stage, 0, less), around)
        _store(parameters, features, scratch.numbers[place])


@kernel
def _store(parameters: Numbers, features: Features, own: Float64) -> None:
    """Store the parts of each hidden unit's input that stay over the round, four sums by turns."""
    for unit in range(HIDDEN):
        weights = parameters[unit * _UNIT : (unit + 1) * _UNIT]
        own[unit] = weights[INPUTS] + weights[0] * features[0]
        own[HIDDEN + unit] = weights[8] * features[8]
        own[2 * HIDDEN + unit] = weights[12] * features[12]
        own[3 * HIDDEN + unit] = weights[16] * features[16]
        two = 0.0 + weights[1] * features[1] + weights[5] * features[5]
        own[4 * HIDDEN + unit] = two + weights[9] * features[9] + weights[13] * features[13]
        own[5 * HIDDEN + unit] = weights[10] * features[10]
        own[6 * HIDDEN + unit] = weights[14] * features[14]
        own[7 * HIDDEN + unit] = weights[7] * features[7]
        own[8 * HIDDEN + unit] = weights[11] * features[11]
        own[9 * HIDDEN + unit] = weights[15] * features[15]
    own[_SHARE] = features.share
    own[_CLUSTER] = features.cluster
    own[_TASKS] = features.tasks
    own[_IS_KNOWN] = 0.0


@kernel
def _copy_weights(parameters: Numbers, common: Float64) -> None:
    """Write the weights of the features that change, unit by unit, and the bounds they give."""
    common[_SLOPES : _ERROR + 2] = 0.0
    for unit in range(HIDDEN):
        weights = parameters[unit * _UNIT : (unit + 1) * _UNIT]
        for index in range(len(_WEIGHTS)):
            common[index * HIDDEN + unit] = weights[_WEIGHTS[index]]
        total = 1.0
        for index in range(INPUTS + 1):
            total += abs(weights[index])
        for part in range(2):
            slope = abs(weights[INPUTS + 1 + part])
            common[_ERROR + part] += _ROUNDING * slope * total
            for index in range(5):
                common[_SLOPES + 5 * part + index] += slope * abs(weights[_WEIGHTS[index]])


# --- the network ---------------------------------------------------------------------------------


@inlined_kernel
def _now(seen: Observation, job: Row, own: Float64) -> _Changing:
    """Return the features of giving the job one executor."""
    return _Changing(
        own[_SHARE],
        own[_CLUSTER],
        job["local"] / seen.on_offer,
        own[_TASKS],
        (seen.on_offer - 1) / seen.num_executors,
    )


@inlined_kernel
def _most(common: Float64, own: Float64, at: _Changing, part: int) -> float:
    """Return the most that the gate (`part` 0) or the score (1) of a known job can be."""
    local, free = common[_SLOPES + 5 * part + 2], common[_SLOPES + 5 * part + 4]
    change = local * abs(at.local - own[_LOCAL]) + free * abs(at.free - own[_FREE])
    return float(own[_GATE + part] + change + common[_ERROR + part])


@kernel
def _evaluate(parameters: Numbers, common: Float64, own: Float64, at: _Changing) -> None:
    """Store gate and score of one job, as `es_rule.gate_and_score` gives them."""
    for unit in range(HIDDEN):
        one = own[unit] + common[2 * HIDDEN + unit] * at.local
        one = one + own[HIDDEN + unit] + own[2 * HIDDEN + unit] + own[3 * HIDDEN + unit]
        one += common[4 * HIDDEN + unit] * at.free
        three = 0.0 + common[unit] * at.share + common[3 * HIDDEN + unit] * at.tasks
        three = three + own[5 * HIDDEN + unit] + own[6 * HIDDEN + unit]
        four = 0.0 + common[HIDDEN + unit] * at.cluster + own[7 * HIDDEN + unit]
        four = four + own[8 * HIDDEN + unit] + own[9 * HIDDEN + unit]
        common[_ACTIVE + unit] = tanh((one + own[4 * HIDDEN + unit]) + (three + four))
    gate = parameters[_GATE_BIAS]
    score = 0.0
    for unit in range(HIDDEN):
        gate += common[5 * HIDDEN + unit] * common[_ACTIVE + unit]
        score += common[6 * HIDDEN + unit] * common[_ACTIVE + unit]
    own[_GATE], own[_SCORE], own[_LOCAL], own[_FREE] = gate, score, at.local, at.free
    own[_IS_KNOWN] = 1.0


# --- the limit -----------------------------------------------------------------------------------


@kernel
def _extended(
    seen: Observation, parameters: Numbers, scratch: Scratch, best: tuple[int, int], second: float
) -> int:
    """The limit for the job, as `es_rule.extended` gives it. `best` is the stage and the place."""
    common, own = scratch.numbers[-1], scratch.numbers[best[1]]
    stage = seen.stages[best[0]]
    held = seen.jobs[stage["job"]]["held"]
    left = stage["num_tasks"] - stage["covered"]
    most = min(seen.on_offer, left, seen.num_executors - held)
    given = 1
    jump = 1
    while given < most:
        at = _after(seen, best[0], given)
        _evaluate(parameters, common, own, at)
        if own[_GATE] <= 0.0 or own[_SCORE] <= second:
            break
        given += 1
        # All that follow pass, too, up to where the bounds no longer exclude the opposite.
        jump = min(2 * jump, most - given)
        while jump > 0:
            then = _after(seen, best[0], given - 1 + jump)
            least_gate = own[_GATE] - _change(common, at, then, 0)
            least_score = own[_SCORE] - _change(common, at, then, 1)
            if least_gate > 0.0 and least_score > second:
                break
            jump //= 2
        given += jump
        jump = max(jump, 1)
    own[_IS_KNOWN] = 0.0
    return int(held + given)


@inlined_kernel
def _after(seen: Observation, number: int, given: int) -> _Changing:
    """Return the features of one more executor for a stage whose job has got `given` just now.

    Each of them only rises or only falls with `given`.
    """
    stage = seen.stages[number]
    job = seen.jobs[stage["job"]]
    share = seen.num_executors / len(seen.active)
    held = job["held"] + given + 1
    on_offer = seen.on_offer - given
    left = stage["num_tasks"] - stage["covered"] - given
    return _Changing(
        math.log(held / share),
        held / seen.num_executors,
        max(0, job["local"] - given) / on_offer,
        0.5 * math.log(max(1, left) / share),
        (on_offer - 1) / seen.num_executors,
    )


@inlined_kernel
def _change(common: Float64, one: _Changing, other: _Changing, part: int) -> float:
    """Return the most by which the gate (`part` 0) or the score (1) differs."""
    total = common[_ERROR + part]
    for index in range(5):
        total += common[_SLOPES + 5 * part + index] * abs(other[index] - one[index])
    return float(total)
