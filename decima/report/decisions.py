"""The section of a learned policy's decisions: what it saw, what it chose, why, and what other
policies would have chosen.

A policy plans all choices of a scheduling event at the first of them, so an entry is a plan: the
likeliest of what could come first, and the choice that did.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from decima.agent.model import shared_model
from decima.evaluation.config import EvaluationConfig
from decima.evaluation.runner import Workload
from decima.explain.decision import Explanation, StageShown, explain_decision, memory_gb
from decima.explain.moments import Moment, moments
from decima.explain.words import in_words, reasons
from decima.policies import Heuristic, is_learned, model_path
from decima.report.results import significant
from decima.report.section import Section
from spark_sim import PASS, Action, Observation

MOST_SHOWN = 6
"""stages of a plan that are listed"""
EXPLAINED = 24
"""plans with reasons, which cost a hundred times as much as the rest: those with most to choose"""


def decisions_section(
    workload: Workload,
    config: EvaluationConfig,
    policy: str,
    sequence: int,
    explained: int = EXPLAINED,
) -> Section:
    """The plans of a learned policy on one sequence.

    Args:
        workload: the jobs.
        config: the evaluation; its heuristics say what they would have chosen in the same place.
        policy: the learned one, by its name in the evaluation.
        sequence: which.
        explained: how many plans get reasons.
    """
    network = shared_model(model_path(policy)).network
    others = {
        name: Heuristic(name, config.parameters.get(name), trace=workload.arrays)
        for name in config.policies
        if not is_learned(name)
    }
    plans = list(_plans(workload, config, policy, sequence))
    told = _told(plans, explained)
    entries = []
    for number, moment in enumerate(plans):
        found = explain_decision(network, workload, moment, with_reasons=number in told)
        entry = _entry(found)
        entry["others"] = {
            name: _choice(workload, moment.observation, other.decide(moment.observation))
            for name, other in others.items()
        }
        entries.append(entry)
    return Section(
        anchor="decisions",
        heading=f"Decisions of {policy}",
        template="decisions.html",
        content={
            "policy": policy,
            "sequence": sequence,
            "plans": len(entries),
            "explained": len(told),
        },
        decisions=entries,
    )


def _plans(
    workload: Workload, config: EvaluationConfig, policy: str, sequence: int
) -> Iterator[Moment]:
    """The first decision of each plan."""
    for moment in moments(workload, config, policy, sequence):
        if moment.number == moment.planned_at:
            yield moment


def _told(plans: Sequence[Moment], count: int) -> set[int]:
    """Of each of `count` stretches of the run, the plan with the most stages to choose from."""
    bounds = np.linspace(0, len(plans), min(count, len(plans)) + 1).astype(int)
    return {
        max(range(low, high), key=lambda number: plans[number].num_open)
        for low, high in pairwise(bounds.tolist())
    }


def _entry(found: Explanation) -> dict[str, Any]:
    """A plan as the page's script takes it."""
    shown = sorted(found.stages, key=lambda stage: stage.place)[:MOST_SHOWN]
    return {
        "number": found.decision,
        "time_s": significant(found.time_s),
        "jobs": found.jobs_in_system,
        "offer": found.on_offer,
        "stages": len(found.stages),
        "likely": [_stage(stage) for stage in shown],
        "end": {"p": significant(found.end_probability), "place": found.end_place},
        "taken": _taken(found),
        "words": in_words(found) if found.attributions else [],
        "reasons": [
            [reason.name, significant(reason.part)] for reason in reasons(found)
        ] if found.attributions else [],
    }  # fmt: skip


def _taken(found: Explanation) -> dict[str, Any] | None:
    if found.taken is None:
        return None
    return {
        "job": found.taken.job.arrival,
        "stage": found.taken.name,
        "limit": found.taken_limit,
        "memory_gb": found.taken_memory_gb,
    }


def _stage(stage: StageShown) -> dict[str, Any]:
    return {
        "job": stage.job.arrival,
        "name": stage.job.name,
        "stage": stage.name,
        "p": significant(stage.probability),
        "place": stage.place,
        "wanted": stage.wanted,
        "task_s": significant(stage.task_s),
        "path_s": significant(stage.critical_path_s),
        "left_s": significant(stage.job.work_left_s),
        "held": stage.job.held,
        "age_s": significant(stage.job.age_s),
    }


def _choice(workload: Workload, seen: Observation, action: Action) -> dict[str, Any] | None:
    """What a heuristic chooses: a job by its arrival, its stage, the limit; None: nothing."""
    if action == PASS:
        return None
    number = int(seen.stages[action.stage]["job"])
    job = seen.jobs[number]
    stages = workload.trace.jobs[int(job["template"])].stages
    return {
        "job": number,
        "stage": stages[action.stage - int(job["first_stage"])].name,
        "limit": action.limit,
        "memory_gb": memory_gb(seen, action.kind),
    }
