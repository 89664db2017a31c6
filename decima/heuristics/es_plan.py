"""What the scoring rule would choose in a whole round, from one look at it.

`es_rule.decide` is asked for one choice after the other and judges every job anew each time. Here
the choices of a round are worked out together, and only the job that seems best is judged anew: J
judgements and one for each executor given, where the rule itself takes J for each choice.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from decima.heuristics.compiled import Numbers
from decima.heuristics.es_rule import (
    SIZE,
    Candidate,
    Features,
    Surroundings,
    features_of,
    first_of_world,
    judge,
)
from decima.heuristics.stages import is_more_critical
from decima.kernels import kernel
from spark_sim.tables import NONE, Table
from traces.numbers import Float64, Int64


class Choosing(NamedTuple):
    """Of one round: what there is, and what the rule makes of it. J jobs, O open stages."""

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
    taken: Int64  # (J,) filled: executors that the rule gives the job
    rank: Int64  # (O,) filled: which choice the stage is, NONE if it is none


@kernel
def plan(round_: Choosing, parameters: Numbers, around: Surroundings) -> int:
    """Fill in what the rule would choose; returns how many choices it would make."""
    start = first_of_world(parameters, around)
    parameters = parameters[start : start + SIZE]
    left = round_.on_offer
    for entry in range(round_.first_open[0], round_.first_open[len(round_.job_row)]):
        round_.rank[entry] = NONE
    for job in range(len(round_.job_row)):
        round_.taken[job] = 0
        round_.gate[job] = round_.score[job] = 0.0
        _judge_next(round_, parameters, around, job, left)
    count = 0
    while left > 0:
        best, second = _best_two(round_.now)
        if best == NONE:
            break
        # Executors given meanwhile change what share of those left is in the job.
        _judge_again(round_, parameters, around, best, left)
        if round_.now[best] < second:
            continue
        left -= _give(round_, parameters, around, best, second, left)
        round_.rank[round_.candidate[best]] = count
        count += 1
        _judge_next(round_, parameters, around, best, left)
    return count


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
    round_: Choosing, parameters: Numbers, around: Surroundings, job: int, left: int
) -> None:
    """Make the job's next stage its candidate, and judge it."""
    round_.candidate[job] = _next_stage(round_, job, around.num_executors)
    round_.now[job] = -math.inf
    if left > 0 and round_.candidate[job] != NONE:
        gate = _judge_again(round_, parameters, around, job, left)
        if round_.taken[job] == 0:
            round_.gate[job] = gate
            round_.score[job] = round_.now[job]
        if gate <= 0.0 and _held(round_, job) > 0:
            round_.now[job] = -math.inf


@kernel
def _judge_again(
    round_: Choosing, parameters: Numbers, around: Surroundings, job: int, left: int
) -> float:
    """Note the present score of the job's candidate; returns its gate."""
    gate, score = judge(parameters, _features(round_, around, job, 0, left))
    round_.now[job] = score
    return gate


@kernel
def _next_stage(round_: Choosing, job: int, num_executors: int) -> int:
    """As `stages.on_critical_path`, among the job's stages that are not chosen yet."""
    if _held(round_, job) >= num_executors:
        return NONE
    best = NONE
    for entry in range(round_.first_open[job], round_.first_open[job + 1]):
        if round_.rank[entry] != NONE:
            continue
        if best == NONE:
            best = entry
            continue
        leader = round_.stages[round_.open_stage[best]]
        if is_more_critical(round_.stages[round_.open_stage[entry]], leader):
            best = entry
    return best


@kernel
def _held(round_: Choosing, job: int) -> int:
    return int(round_.jobs[round_.job_row[job]]["held"] + round_.taken[job])


@kernel
def _give(
    round_: Choosing,
    parameters: Numbers,
    around: Surroundings,
    job: int,
    second: float,
    left: int,
) -> int:
    """Executors for the candidate of the best job: while its gate is open, its score the best."""
    row = round_.stages[round_.open_stage[round_.candidate[job]]]
    demand = row["num_tasks"] - row["covered"]
    most = min(left, demand, around.num_executors - _held(round_, job))
    given = 1
    while given < most:
        gate, score = judge(parameters, _features(round_, around, job, given, left))
        if gate <= 0.0 or score <= second:
            break
        given += 1
    round_.taken[job] += given
    return int(given)


@kernel
def _features(round_: Choosing, around: Surroundings, job: int, given: int, left: int) -> Features:
    """Of one more executor for the candidate, when it has been `given` some of those `left`."""
    number = round_.job_row[job]
    row = round_.jobs[number]
    stage = round_.stages[round_.open_stage[round_.candidate[job]]]
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
        ),
        around,
    )
