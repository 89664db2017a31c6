"""Report section on a learned policy's decisions, beside what other policies would have chosen.

A policy plans all choices of a scheduling event at the first of them, so an entry is a plan: the
stages with their probabilities, the first choice, and its reasons.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from decima.evaluation.config import EvaluationConfig
from decima.evaluation.runner import Workload, policy_on
from decima.learned import load
from decima.policy_names import is_learned
from decima.report.explain.decision import explain_decision, memory_gb, moments
from decima.report.explain.words import in_words
from decima.report.results import significant
from decima.report.section import Section
from spark_sim import PASS, Action, Observation

MOST_SHOWN = 6  # stages listed per plan
EXPLAINED = 24  # plans with reasons, each of which costs a pass of the network


def decisions_section(
    workload: Workload,
    config: EvaluationConfig,
    policy: str,
    sequence: int,
    explained: int = EXPLAINED,
) -> Section:
    """Return the section on a learned policy's plans on one sequence, `explained` with reasons.

    Policies of `config` that are not learned show what they would have chosen at every plan.
    """
    network = load(policy)
    others = {
        name: policy_on(workload, config, name, sequence)
        for name in config.policies
        if not is_learned(name)
    }
    decided = moments(workload, config, policy, sequence)
    plans = [moment for moment in decided if moment.number == moment.planned_at]
    # The plan with the most stages of each of the parts into which the run is split.
    bounds = np.linspace(0, len(plans), min(explained, len(plans)) + 1).astype(int)
    chosen = {
        max(range(low, high), key=lambda number: plans[number].num_open)
        for low, high in pairwise(bounds.tolist())
    }
    entries = []
    for number, moment in enumerate(plans):
        explanation = explain_decision(network, workload, moment, with_reasons=number in chosen)
        taken = None
        if explanation.taken is not None:
            taken = {
                "job": explanation.taken.job.arrival,
                "stage": explanation.taken.name,
                "limit": explanation.taken_limit,
                "memory_gb": explanation.taken_memory_gb,
            }
        shown = sorted(explanation.stages, key=lambda stage: stage.place)[:MOST_SHOWN]
        entry = {
            "number": explanation.decision,
            "time_s": significant(explanation.time_s),
            "jobs": explanation.jobs_in_system,
            "offer": explanation.on_offer,
            "stages": len(explanation.stages),
            "likely": [
                {
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
                for stage in shown
            ],
            "end": {"p": significant(explanation.end_probability), "place": explanation.end_place},
            "taken": taken,
            "words": in_words(explanation) if number in chosen else [],
            "reasons": [
                [reason.name, significant(reason.weight)] for reason in explanation.reasons
            ],
            "others": {
                name: _choice(workload, moment.observation, heuristic.decide(moment.observation))
                for name, heuristic in others.items()
            },
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
            "explained": len(chosen),
        },
        decisions=entries,
    )


def _choice(workload: Workload, observation: Observation, action: Action) -> dict[str, Any] | None:
    """Return another policy's choice: arrival of the job, stage and limit; None if it passes."""
    if action == PASS:
        return None
    number = int(observation.stages[action.stage]["job"])
    job = observation.jobs[number]
    stages = workload.trace.jobs[int(job["template"])].stages
    return {
        "job": number,
        "stage": stages[action.stage - int(job["first_stage"])].name,
        "limit": action.limit,
        "memory_gb": memory_gb(observation, action.kind),
    }
