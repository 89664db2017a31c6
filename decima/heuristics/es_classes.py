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
from decima.heuristics.spec import HeuristicSpec, Numbers, Scratch, shipped_weights
from decima.heuristics.stages import Row, is_on_offer, scarcity
from decima.kernels import kernel
from spark_sim.observation import Observation
from spark_sim.tables import NONE, Table

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
def decide(observation: Observation, parameters: Numbers, scratch: Scratch) -> tuple[int, int, int]:
    """The stage, the limit and the class of executors with the best score."""
    if len(observation.classes) == 1:
        return _decide_alone(observation, parameters[_FIRST:], scratch)
    around = es_rule.surroundings(observation)
    # A large job would wait for each of the large executors.
    is_large_first = around.mean_ms < parameters[_LARGE_FIRST] * around.typical_ms
    rule = parameters[_FIRST:]
    best = best_kind = NONE
    best_score = second = -math.inf
    for job in observation.active:
        held = observation.jobs[job]["held"]
        stage = _stage_of(observation, job, parameters)
        if held >= observation.num_executors or stage == NONE:
            continue
        kind = NONE
        for fitting in range(len(observation.classes)):
            if is_on_offer(observation.classes, observation.stages[stage], fitting):
                kind = fitting
                if not is_large_first:
                    break
        gate, score = es_rule.gate_and_score(rule, es_rule.describe(observation, stage, around, 0))
        if kind == NONE or (held > 0 and gate <= 0.0):
            continue
        score += bonus(observation.classes, observation.stages[stage], parameters, kind)
        if score > best_score:
            best, best_kind, second, best_score = stage, kind, best_score, score
        elif score > second:
            second = score
    if best == NONE:
        return NONE, 0, NONE
    second -= bonus(observation.classes, observation.stages[best], parameters, best_kind)
    return best, es_rule.extended(observation, rule, best, around, second), best_kind


@kernel
def bonus(classes: Table, stage: Row, parameters: Numbers, kind: int) -> float:
    """Return what a task that fills a large executor adds to the score of its job."""
    largest_mb = classes[-1]["memory_mb"]
    need_mb, size_mb = stage["memory_mb"], classes[kind]["memory_mb"]
    return float(parameters[_PACKING] * need_mb * size_mb / largest_mb**2)


@kernel
def _stage_of(observation: Observation, job: int, parameters: Numbers) -> int:
    """Return the open stage that the job would run first; NONE if it has none."""
    row = observation.jobs[job]
    best = NONE
    best_value = -math.inf
    for stage in range(row["first_stage"], row["first_stage"] + row["num_stages"]):
        candidate = observation.stages[stage]
        if candidate["open"] == 0:
            continue
        value = parameters[_TROUBLE] * scarcity(
            observation.classes, candidate, observation.num_executors
        )
        value += _RUNNABLE_FIRST * candidate["runnable"]
        value += math.log(max(1.0, candidate["critical_path_ms"]))
        if value > best_value:
            best, best_value = stage, value
    return best


HEURISTICS = {
    "es_classes": HeuristicSpec(
        decide,
        "es_rule for executors of several classes: it also names one",
        place=120,
        defaults=shipped_weights("es_classes", ALL_PARAMETERS),
        search={
            "trouble": (-1.0, -0.5, 0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0),
            "packing": (-1.0, -0.3, -0.1, 0.0, 0.03, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 4.0),
            "large_first": (0.0, 4.0, 16.0, 64.0, 1e6),
        },
    ),
    "es_makespan": HeuristicSpec(
        decide,
        "the scoring rule with weights fitted to batches' makespan, not to average JCT",
        place=130,
        defaults=shipped_weights("es_makespan", ALL_PARAMETERS),
        inseparable=True,
    ),
}
