"""What the scoring rule would choose in a whole round, from one look at it.

`es_classes.decide` is asked for one choice after the other and judges every job anew each time.
Here the choices of a round are worked out together, and only the job that seems best is judged
anew: J judgements and one for each executor given, where the rule itself takes J for each choice.

With several classes of executors all jobs are judged anew after each choice, and a plan ends where
a class runs out before a stage has what the rule would give it: the round is then due again.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from decima.heuristics import es_classes
from decima.heuristics.compiled import Numbers
from decima.heuristics.es_rule import (
    SIZE,
    Candidate,
    Features,
    Surroundings,
    features_of,
    is_served,
    judge,
    wait_ms,
)
from decima.heuristics.stages import is_more_critical
from decima.kernels import kernel
from spark_sim.tables import ANY, NONE, Table
from traces.numbers import Float64, Int64

_CLASSES = len(es_classes.CLASS_PARAMETERS)


class Choosing(NamedTuple):
    """Of one round: what there is, and what the rule makes of it. J jobs, O open stages."""

    classes: Table  # (C,) CLASS; what the plan has given is taken off `on_offer`
    jobs: Table  # JOB
    stages: Table  # STAGE
    job_row: Int64  # (J,) rows of `jobs`
    less: Int64  # (J,) jobs with less work left
    first_open: Int64  # (J + 1,) job j has the open stages first_open[j]:first_open[j + 1]
    open_stage: Int64  # (O,) rows of `stages`; may have more before and behind
    on_offer: int
    source_job: int  # row of `jobs`, or NONE
    gate: Float64  # (J,) filled: gate and score of giving the job its first executor
    score: Float64  # (J,)
    now: Float64  # (J,) scratch: the present score, -inf where the job may take none
    candidate: Int64  # (J,) scratch: its stage among the O, or NONE
    candidate_kind: Int64  # (J,) scratch: the class that the stage would now get executors of
    taken: Int64  # (J,) filled: executors that the rule gives the job
    rank: Int64  # (O,) filled: which choice the stage is, NONE if it is none
    kind: Int64  # (O,) filled: the class that it would get its executors of, or ANY


class Weights(NamedTuple):
    """Of the rule."""

    classes: Numbers  # `es_classes.CLASS_PARAMETERS`
    is_large_first: bool
    world: Numbers  # `es_rule.PARAMETERS`, as they hold in this world


@kernel
def plan(round_: Choosing, parameters: Numbers, around: Surroundings) -> int:
    """Fill in what the rule would choose; returns how many choices it would make.

    `parameters` are `es_classes.ALL_PARAMETERS`.
    """
    first = es_classes.first_of_rule(parameters, len(round_.classes), around)
    is_large = es_classes.is_large_first(parameters, around)
    weights = Weights(parameters[:_CLASSES], is_large, parameters[first : first + SIZE])
    left = round_.on_offer
    for entry in range(round_.first_open[0], round_.first_open[len(round_.job_row)]):
        round_.rank[entry] = NONE
        round_.kind[entry] = _class_of(round_, weights, entry)
    for job in range(len(round_.job_row)):
        round_.taken[job] = 0
        round_.gate[job], round_.score[job] = _judge_next(round_, weights, around, job, left)
    count = 0
    while left > 0:
        best, second = _best_two(round_.now)
        if best == NONE:
            break
        # Executors given meanwhile change what share of those left is in the job, and which class.
        _judge_again(round_, weights, around, best, left)
        if round_.now[best] < second or round_.now[best] == -math.inf:
            continue
        wanted = _wanted(round_, weights, around, best, second, left)
        given = _taken_off(round_, best, wanted)
        left -= given
        round_.taken[best] += wanted
        round_.rank[round_.candidate[best]] = count
        round_.kind[round_.candidate[best]] = round_.candidate_kind[best]
        count += 1
        if given < wanted:
            break
        _judge_after(round_, weights, around, best, left)
    return count


@kernel
def _judge_after(
    round_: Choosing, weights: Weights, around: Surroundings, chosen: int, left: int
) -> None:
    """Judge what comes next: of the job that was chosen, and where one class has now less, of all,
    since others may have wanted it (else batches take 2 % longer than under the rule).
    """
    if len(round_.classes) == 1:
        _judge_next(round_, weights, around, chosen, left)
        return
    for job in range(len(round_.job_row)):
        _judge_next(round_, weights, around, job, left)


@kernel
def _class_of(round_: Choosing, weights: Weights, entry: int) -> int:
    """The class that the rule would now take for a stage, ANY where there is one, NONE if all that
    could hold its tasks have run out.
    """
    if len(round_.classes) == 1:
        return ANY
    stage = round_.stages[round_.open_stage[entry]]
    return int(es_classes.class_of(round_.classes, stage, weights.is_large_first))


@kernel
def _best_two(now: Float64) -> tuple[int, float]:
    """The job with the best score, and the second best score."""
    best = NONE
    best_score = second = -math.inf
    for job in range(len(now)):
        if now[job] > best_score:
            second = best_score
            best_score = now[job]
            best = job
        elif now[job] > second:
            second = now[job]
    return best, second


@kernel
def _judge_next(
    round_: Choosing, weights: Weights, around: Surroundings, job: int, left: int
) -> tuple[float, float]:
    """Make the job's next stage its candidate, and judge it; gate and score, 0 without one."""
    round_.candidate[job] = _next_stage(round_, weights, job, around.num_executors)
    round_.now[job] = -math.inf
    if left <= 0 or round_.candidate[job] == NONE:
        return 0.0, 0.0
    gate, score = _judge_again(round_, weights, around, job, left)
    is_new = round_.taken[job] == 0 and not is_served(round_.jobs[round_.job_row[job]], around)
    if gate <= 0.0 and not is_new:
        round_.now[job] = -math.inf
    return gate, score


@kernel
def _judge_again(
    round_: Choosing, weights: Weights, around: Surroundings, job: int, left: int
) -> tuple[float, float]:
    """Note the present score of the job's candidate, if it may have executors; gate and score."""
    gate, score = judge(weights.world, _features(round_, around, job, 0, left))
    round_.now[job] = score
    round_.candidate_kind[job] = ANY
    if len(round_.classes) > 1:
        stage = round_.stages[round_.open_stage[round_.candidate[job]]]
        kind = _class_of(round_, weights, round_.candidate[job])
        round_.candidate_kind[job] = kind
        if kind == NONE:
            round_.now[job] = -math.inf
        else:
            round_.now[job] += es_classes.bonus(round_.classes, stage, weights.classes, kind)
    return gate, score


@kernel
def _next_stage(round_: Choosing, weights: Weights, job: int, num_executors: int) -> int:
    """The job's most urgent stage among those that are not chosen yet and may be."""
    if _held(round_, job) >= num_executors:
        return NONE
    best = NONE
    for entry in range(round_.first_open[job], round_.first_open[job + 1]):
        if round_.rank[entry] != NONE:
            continue
        if len(round_.classes) > 1 and _class_of(round_, weights, entry) == NONE:
            continue
        if best == NONE or _is_more_urgent(round_, weights, num_executors, entry, best):
            best = entry
    return best


@kernel
def _is_more_urgent(
    round_: Choosing, weights: Weights, num_executors: int, entry: int, leader: int
) -> bool:
    """As `stages.on_critical_path`; with several classes as `es_classes` does."""
    one = round_.stages[round_.open_stage[entry]]
    other = round_.stages[round_.open_stage[leader]]
    if len(round_.classes) == 1:
        return bool(is_more_critical(one, other))
    classes, rule = round_.classes, weights.classes
    return bool(
        es_classes.urgency(classes, one, rule, num_executors)
        > es_classes.urgency(classes, other, rule, num_executors)
    )


@kernel
def _held(round_: Choosing, job: int) -> int:
    return int(round_.jobs[round_.job_row[job]]["held"] + round_.taken[job])


@kernel
def _wanted(
    round_: Choosing,
    weights: Weights,
    around: Surroundings,
    job: int,
    second: float,
    left: int,
) -> int:
    """Executors for the candidate of the best job: while its gate is open, its score the best."""
    row = round_.stages[round_.open_stage[round_.candidate[job]]]
    if len(round_.classes) > 1:
        kind = round_.candidate_kind[job]
        second -= es_classes.bonus(round_.classes, row, weights.classes, kind)
    demand = row["num_tasks"] - row["covered"]
    most = min(left, demand, around.num_executors - _held(round_, job))
    wanted = 1
    while wanted < most:
        gate, score = judge(weights.world, _features(round_, around, job, wanted, left))
        if gate <= 0.0 or score <= second:
            break
        wanted += 1
    return int(wanted)


@kernel
def _taken_off(round_: Choosing, job: int, wanted: int) -> int:
    """Take executors of the candidate's class off what is on offer; how many there were."""
    kind = round_.candidate_kind[job]
    if kind == ANY:
        return wanted
    row = round_.classes[kind]
    given = min(wanted, row["on_offer"])
    row["on_offer"] -= given
    return int(given)


@kernel
def _features(round_: Choosing, around: Surroundings, job: int, given: int, left: int) -> Features:
    """Of one more executor for the candidate, when it has been `given` some of those `left`."""
    number = round_.job_row[job]
    row = round_.jobs[number]
    number_of_stage = round_.open_stage[round_.candidate[job]]
    stage = round_.stages[number_of_stage]
    taken = round_.taken[job] + given
    return features_of(
        Candidate(
            row["remaining_ms"],
            round_.less[job],
            row["held"] + taken,
            max(0, row["local"] - taken),
            left - given,
            stage["num_tasks"] - stage["covered"] - given,
            number == round_.source_job,
            stage["critical_path_ms"],
            stage["mean_ms"],
            stage["runnable"] == 1,
            wait_ms(round_.jobs, round_.stages, number_of_stage),
        ),
        around,
    )
