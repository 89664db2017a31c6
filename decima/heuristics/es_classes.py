r"""The scoring rule for executors of several classes: it also chooses the class.

.. math:: s_{ic} = s_i + b \, m_v s_c, \qquad v = \arg\max_u \; \log p_u + a \, (1 - H_u / N)

s_i is the score of `es_rule` for job i; m_v and s_c are what a task of its stage v needs and what
an executor of class c has, memory over that of the largest class. Inside a job the stage v is, as
for the others, a runnable one with a long critical path p_u, weighted up if few executors can hold
it (H_u of N). The class c is the smallest or the largest on offer that can hold its tasks.

The rule decides which jobs may take an executor, and how many, with weights fitted to such
clusters. Large executors first is one to three points better, but up to twice as bad where a heavy
job needs them. So small ones go first while the mean work left is far above a typical job's. Four
variants gained nothing: a price on idle memory, large executors for short jobs first, a reserve of
each class, and more weight on work that few executors can do.
"""

from __future__ import annotations

import math

from decima.heuristics import es_round, es_rule
from decima.heuristics.compiled import Numbers, Scratch
from decima.heuristics.es_rule import Surroundings
from decima.heuristics.stages import Row
from decima.heuristics.tetris import is_on_offer
from decima.kernels import kernel
from spark_sim.kernels.opening import can_hold
from spark_sim.observation import Observation
from spark_sim.tables import ANY, NONE, Table

CLASS_PARAMETERS = ("trouble", "packing", "large_first")
"""a, b, and a threshold: c is the largest class while the mean work of the jobs in the system is
below so many times a typical job's, else the smallest; 0 is always the smallest"""
ALL_PARAMETERS = (*CLASS_PARAMETERS, *es_rule.PARAMETERS)
"""names of the parameters in the order of `Numbers`"""
_TROUBLE, _PACKING, _LARGE_FIRST = range(3)
_FIRST = len(CLASS_PARAMETERS)
_RUNNABLE_FIRST = 1e3  # more than any logarithm of a critical path

_decide_alone = es_round.decide


@kernel
def decide(seen: Observation, parameters: Numbers, scratch: Scratch) -> tuple[int, int, int]:
    """The stage, the limit and the class of executors with the best score."""
    if len(seen.classes) == 1:
        stage, limit = _decide_alone(seen, parameters[_FIRST:], scratch)
        return stage, limit, ANY
    around = es_rule.surroundings(seen)
    is_large = is_large_first(parameters, around)
    rule = parameters[_FIRST:]
    best = best_kind = NONE
    best_score = second = -math.inf
    for job in seen.active:
        held = seen.jobs[job]["held"]
        stage = _stage_of(seen, job, parameters)
        if held >= seen.num_executors or stage == NONE:
            continue
        kind = class_of(seen.classes, seen.stages[stage], is_large)
        gate, score = es_rule.gate_and_score(rule, es_rule.describe(seen, stage, around, 0))
        if kind == NONE or (held > 0 and gate <= 0.0):
            continue
        score += bonus(seen.classes, seen.stages[stage], parameters, kind)
        if score > best_score:
            best, best_kind, second, best_score = stage, kind, best_score, score
        elif score > second:
            second = score
    if best == NONE:
        return NONE, 0, NONE
    second -= bonus(seen.classes, seen.stages[best], parameters, best_kind)
    return best, es_rule.extended(seen, rule, best, around, second), best_kind


@kernel
def bonus(classes: Table, stage: Row, parameters: Numbers, kind: int) -> float:
    """Return what a task that fills a large executor adds to the score of its job."""
    largest_mb = classes[-1]["memory_mb"]
    need_mb, size_mb = stage["memory_mb"], classes[kind]["memory_mb"]
    return float(parameters[_PACKING] * need_mb * size_mb / largest_mb**2)


@kernel
def is_large_first(parameters: Numbers, around: Surroundings) -> bool:
    """Return whether jobs get large executors first: a large job would wait for each of them."""
    return bool(around.mean_ms < parameters[_LARGE_FIRST] * around.typical_ms)


@kernel
def class_of(classes: Table, stage: Row, is_large: bool) -> int:
    """Return the class on offer that the stage would get; NONE if none can hold its tasks."""
    found = NONE
    for kind in range(len(classes)):
        if is_on_offer(classes, stage, kind):
            found = kind
            if not is_large:
                break
    return found


@kernel
def urgency(classes: Table, stage: Row, parameters: Numbers, num_executors: int) -> float:
    """Sort key of a job's stages, largest first."""
    value = parameters[_TROUBLE] * scarcity(classes, stage, num_executors)
    value += _RUNNABLE_FIRST * stage["runnable"]
    return float(value + math.log(max(1.0, stage["critical_path_ms"])))


@kernel
def scarcity(classes: Table, stage: Row, num_executors: int) -> float:
    """1 - H / N: the part of the executors that cannot hold a task of the stage."""
    if len(classes) == 1:
        return 0.0
    hosts = 0
    for kind in range(len(classes)):
        if can_hold(stage, kind):
            hosts += classes[kind]["count"]
    return 1.0 - hosts / num_executors


@kernel
def _stage_of(seen: Observation, job: int, parameters: Numbers) -> int:
    row = seen.jobs[job]
    best = NONE
    best_value = -math.inf
    for stage in range(row["first_stage"], row["first_stage"] + row["num_stages"]):
        candidate = seen.stages[stage]
        if candidate["open"] == 0:
            continue
        value = urgency(seen.classes, candidate, parameters, seen.num_executors)
        if value > best_value:
            best, best_value = stage, value
    return best
