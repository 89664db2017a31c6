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
from decima.heuristics.es_rule import (
    BIAS,
    GATE_BIAS,
    HIDDEN,
    INPUTS,
    PARAMETERS,
    TO_GATE,
    TO_SCORE,
    UNIT,
    Features,
    Surroundings,
    tanh,
)
from decima.heuristics.rounds import has_room, heapify, is_new, sift_down
from decima.heuristics.spec import HeuristicSpec, Numbers, Scratch, shipped_weights
from decima.heuristics.stages import Row, on_critical_path
from decima.kernels import inlined_kernel, kernel
from spark_sim.observation import Observation
from spark_sim.tables import ANY, NONE
from traces.numbers import Float64

_decide_anew = es_rule.decide

_LESS, _ORDER, _STAGE = range(3)
"""rows of `Scratch.counts`: jobs with less remaining work, jobs by that, the stage of each job"""
_CHOSEN, _HAS_WEIGHTS = 1, 2
"""places in `Scratch.stored`: the job of the last choice (its place), 1 once there are weights"""

(
    _X_WORK, _X_RANK, _X_SHARE, _X_CLUSTER, _X_LOCAL, _X_SOURCE, _X_TASKS, _X_JOBS, _X_WIDTH,
    _X_RUNNABLE, _X_SESSION, _X_MOVING, _X_EXECUTORS, _X_QUIET, _X_BLOCKING, _X_INFLATION, _X_WAIT,
    _X_FREE,
) = range(INPUTS)  # fmt: skip
"""places of the features, and so of their weights among a unit's numbers"""

# Columns of `Scratch.numbers` for a job: ten parts of each hidden unit's input, those of features
# that stay over the round, in the four sums of `es_rule.gate_and_score` ...
(
    _BIAS_AND_WORK, _WIDTH, _EXECUTORS, _WAIT, _SECOND_SUM, _SESSION, _BLOCKING, _JOBS, _MOVING,
    _INFLATION, _END_OF_PARTS,
) = range(0, 11 * HIDDEN, HIDDEN)  # fmt: skip
# ... then the features that change, now or at the last evaluation; what that gave, and 1 if there
# was one; and minus the work left.
_SHARE, _CLUSTER, _TASKS, _LOCAL, _FREE, _GATE, _SCORE, _IS_KNOWN, _MINUS_WORK = range(
    _END_OF_PARTS, _END_OF_PARTS + 9
)


class _Changing(NamedTuple):
    """The features that a choice changes."""

    share: float
    cluster: float
    local: float
    tasks: float
    free: float


_CHANGING = (_X_SHARE, _X_CLUSTER, _X_LOCAL, _X_TASKS, _X_FREE)
"""places of `_Changing` among the features"""
_AT_LOCAL, _AT_FREE = 2, 4
"""places in `_Changing`"""

# Columns of the last row: for each hidden unit the weights of the features that change, its parts
# in gate and score, and what it gives; then:
(
    _SHARE_WEIGHT, _CLUSTER_WEIGHT, _LOCAL_WEIGHT, _TASKS_WEIGHT, _FREE_WEIGHT, _GATE_WEIGHT,
    _SCORE_WEIGHT, _ACTIVE, _SLOPES,
) = range(0, 9 * HIDDEN, HIDDEN)  # fmt: skip
"""from `_SLOPES` on: what a feature that changes adds at most to the gate, five of them, then to
the score"""
_ERROR = _SLOPES + 10
"""more than rounding adds to the gate, then to the score"""
_MEAN_MS = _ERROR + 2
_ROUNDING = 1e-10


@kernel
def decide(seen: Observation, parameters: Numbers, scratch: Scratch) -> tuple[int, int, int]:
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
        memo = scratch.numbers[place]
        is_served = es_rule.is_served(job, around)
        at = _now(seen, job, memo)
        if memo[_IS_KNOWN] == 1.0 and best != NONE:
            if _most(common, memo, at, 0) <= 0.0 and is_served:
                continue
            if _most(common, memo, at, 1) <= second:
                continue
        _evaluate(parameters, common, memo, at)
        if memo[_GATE] <= 0.0 and is_served:
            continue
        if best == NONE or memo[_SCORE] > best_score:
            second = best_score
            best_score = memo[_SCORE]
            best = place
        elif memo[_SCORE] > second:
            second = memo[_SCORE]
    scratch.stored[_CHOSEN] = best
    if best == NONE:
        return NONE, 0, ANY
    stage = int(scratch.counts[_STAGE, best])
    return stage, _extended(seen, parameters, scratch, (stage, best), second), ANY


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
    keys = scratch.numbers[:, _MINUS_WORK]
    for place in range(size):
        order[place] = place
        keys[place] = -seen.jobs[seen.active[place]]["remaining_ms"]
    heapify(keys, order, size)
    for last in range(size - 1, 0, -1):
        order[0], order[last] = order[last], order[0]
        sift_down(keys, order, last, 0)
    for entry in range(size):
        less[order[entry]] = entry
        if entry > 0 and keys[order[entry]] == keys[order[entry - 1]]:
            less[order[entry]] = less[order[entry - 1]]


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
def _store(parameters: Numbers, features: Features, memo: Float64) -> None:
    """Store the parts of each hidden unit's input that stay over the round."""
    for unit in range(HIDDEN):
        weights = parameters[unit * UNIT : (unit + 1) * UNIT]
        memo[_BIAS_AND_WORK + unit] = weights[BIAS] + weights[_X_WORK] * features.work
        memo[_WIDTH + unit] = weights[_X_WIDTH] * features.width
        memo[_EXECUTORS + unit] = weights[_X_EXECUTORS] * features.executors
        memo[_WAIT + unit] = weights[_X_WAIT] * features.wait
        second = 0.0 + weights[_X_RANK] * features.rank + weights[_X_SOURCE] * features.source
        second += weights[_X_RUNNABLE] * features.runnable
        memo[_SECOND_SUM + unit] = second + weights[_X_QUIET] * features.quiet
        memo[_SESSION + unit] = weights[_X_SESSION] * features.session
        memo[_BLOCKING + unit] = weights[_X_BLOCKING] * features.blocking
        memo[_JOBS + unit] = weights[_X_JOBS] * features.jobs
        memo[_MOVING + unit] = weights[_X_MOVING] * features.moving
        memo[_INFLATION + unit] = weights[_X_INFLATION] * features.inflation
    memo[_SHARE] = features.share
    memo[_CLUSTER] = features.cluster
    memo[_TASKS] = features.tasks
    memo[_IS_KNOWN] = 0.0


@kernel
def _copy_weights(parameters: Numbers, common: Float64) -> None:
    """Write the weights of the features that change, unit by unit, and the bounds they give."""
    common[_SLOPES : _ERROR + 2] = 0.0
    for unit in range(HIDDEN):
        weights = parameters[unit * UNIT : (unit + 1) * UNIT]
        total = 1.0
        for index in range(INPUTS + 1):
            total += abs(weights[index])
        for part in range(2):
            slope = abs(weights[TO_GATE + part])
            common[_ERROR + part] += _ROUNDING * slope * total
            for index in range(5):
                common[_SLOPES + 5 * part + index] += slope * abs(weights[_CHANGING[index]])
        for index in range(5):
            common[_SHARE_WEIGHT + index * HIDDEN + unit] = weights[_CHANGING[index]]
        common[_GATE_WEIGHT + unit] = weights[TO_GATE]
        common[_SCORE_WEIGHT + unit] = weights[TO_SCORE]


# --- the network ---------------------------------------------------------------------------------


@inlined_kernel
def _now(seen: Observation, job: Row, memo: Float64) -> _Changing:
    """Return the features of giving the job one executor."""
    return _Changing(
        memo[_SHARE],
        memo[_CLUSTER],
        job["local"] / seen.on_offer,
        memo[_TASKS],
        (seen.on_offer - 1) / seen.num_executors,
    )


@inlined_kernel
def _most(common: Float64, memo: Float64, at: _Changing, part: int) -> float:
    """Return the most that the gate (`part` 0) or the score (1) of a known job can be."""
    slopes = common[_SLOPES + 5 * part : _SLOPES + 5 * part + 5]
    change = slopes[_AT_LOCAL] * abs(at.local - memo[_LOCAL])
    change += slopes[_AT_FREE] * abs(at.free - memo[_FREE])
    return float(memo[_GATE + part] + change + common[_ERROR + part])


@kernel
def _evaluate(parameters: Numbers, common: Float64, memo: Float64, at: _Changing) -> None:
    """Store gate and score of one job, as `es_rule.gate_and_score` gives them."""
    for unit in range(HIDDEN):
        first = memo[_BIAS_AND_WORK + unit] + common[_LOCAL_WEIGHT + unit] * at.local
        first = first + memo[_WIDTH + unit] + memo[_EXECUTORS + unit] + memo[_WAIT + unit]
        first += common[_FREE_WEIGHT + unit] * at.free
        third = 0.0 + common[_SHARE_WEIGHT + unit] * at.share
        third = third + common[_TASKS_WEIGHT + unit] * at.tasks
        third = third + memo[_SESSION + unit] + memo[_BLOCKING + unit]
        fourth = 0.0 + common[_CLUSTER_WEIGHT + unit] * at.cluster + memo[_JOBS + unit]
        fourth = fourth + memo[_MOVING + unit] + memo[_INFLATION + unit]
        common[_ACTIVE + unit] = tanh((first + memo[_SECOND_SUM + unit]) + (third + fourth))
    gate = parameters[GATE_BIAS]
    score = 0.0
    for unit in range(HIDDEN):
        gate += common[_GATE_WEIGHT + unit] * common[_ACTIVE + unit]
        score += common[_SCORE_WEIGHT + unit] * common[_ACTIVE + unit]
    memo[_GATE], memo[_SCORE], memo[_LOCAL], memo[_FREE] = gate, score, at.local, at.free
    memo[_IS_KNOWN] = 1.0


# --- the limit -----------------------------------------------------------------------------------


@kernel
def _extended(
    seen: Observation, parameters: Numbers, scratch: Scratch, best: tuple[int, int], second: float
) -> int:
    """The limit for the job, as `es_rule.extended` gives it. `best` is the stage and the place."""
    common, memo = scratch.numbers[-1], scratch.numbers[best[1]]
    stage = seen.stages[best[0]]
    held = seen.jobs[stage["job"]]["held"]
    left = stage["num_tasks"] - stage["covered"]
    most = min(seen.on_offer, left, seen.num_executors - held)
    given = 1
    jump = 1
    while given < most:
        at = _after(seen, best[0], given)
        _evaluate(parameters, common, memo, at)
        if memo[_GATE] <= 0.0 or memo[_SCORE] <= second:
            break
        given += 1
        # All that follow pass, too, up to where the bounds no longer exclude the opposite.
        jump = min(2 * jump, most - given)
        while jump > 0:
            then = _after(seen, best[0], given - 1 + jump)
            least_gate = memo[_GATE] - _change(common, at, then, 0)
            least_score = memo[_SCORE] - _change(common, at, then, 1)
            if least_gate > 0.0 and least_score > second:
                break
            jump //= 2
        given += jump
        jump = max(jump, 1)
    memo[_IS_KNOWN] = 0.0
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
def _change(common: Float64, before: _Changing, after: _Changing, part: int) -> float:
    """Return the most by which the gate (`part` 0) or the score (1) differs."""
    total = common[_ERROR + part]
    for index in range(5):
        total += common[_SLOPES + 5 * part + index] * abs(after[index] - before[index])
    return float(total)


HEURISTICS = {
    "es_rule": HeuristicSpec(
        decide,
        "a small scoring rule with fitted weights (`decima fit-rule`)",
        place=110,
        defaults=shipped_weights("es_rule", PARAMETERS),
        inseparable=True,
    )
}
