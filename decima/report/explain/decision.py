"""The decisions of a learned policy on one sequence, and the explanation of one of them.

A policy plans all choices of a scheduling event at the first of them. A later choice is therefore
explained by what the policy observed when it made the plan.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from decima.agent import columns
from decima.agent.columns import Choices
from decima.agent.policy import Planned
from decima.agent.scales import Scales
from decima.agent.scorer import Scorer
from decima.agent.weights import Network
from decima.errors import ConfigError
from decima.evaluation.config import EvaluationConfig
from decima.evaluation.runner import Workload, prepare
from decima.learned import learned_policy
from decima.report.explain.reasons import (
    SINGLE_COLUMNS,
    Choice,
    Reason,
    log_probs,
    reasons_of,
)
from spark_sim import PASS, Action, Observation, Status, Streams
from spark_sim.cluster import MB_PER_GB
from spark_sim.observation import copied, for_kernels
from spark_sim.tables import ANY
from traces.numbers import MS_PER_S, Float64, Int64

SEARCHED = 500  # decisions that `busiest` searches


@dataclass(frozen=True, eq=False)
class Moment:
    """One decision of a run, before its action is taken."""

    number: int
    """number in the run, from 1"""
    planned_at: int
    """number of the decision at which its plan was made: this one or an earlier one"""
    observation: Observation
    """copy of what the policy observed when it made the plan"""
    action: Action
    """the policy's action"""
    given: int
    """executors that the action gives away"""
    order: Int64
    """(O + 1,) the plan: each stage by its index among those that may be chosen, O for the end of
    the round; what comes after the end is not sorted
    """
    cluster_mean: Float64
    """(len(CLUSTER),) mean columns of the cluster over this plan and all earlier ones"""

    @property
    def num_open(self) -> int:
        """O, the number of stages that the plan could choose from."""
        return len(self.order) - 1


def moments(
    workload: Workload, config: EvaluationConfig, name: str, sequence: int
) -> Iterator[Moment]:
    """Yield the decisions of the policy `name` on a sequence."""
    simulator = prepare(workload, config, sequence)
    key = int(Streams(config.seed, sequence).actions().integers(2**63))
    policy = learned_policy(name, workload.arrays, key)
    total = np.zeros(len(columns.CLUSTER))
    planned: Planned | None = None
    plan: Moment | None = None
    plans = 0
    for number in itertools.count(1):
        if simulator.status is not Status.DECIDE:
            return
        observation = simulator.observation()
        action = policy.decide(observation)
        if policy.planned is not None and policy.planned is not planned:
            planned = policy.planned
            plans += 1
            total += planned.scored.choices.cluster_x[0]
            order, mean = planned.plan.order, total / plans
            plan = Moment(number, number, copied(observation), action, 0, order, mean)
        if plan is None:
            raise RuntimeError("the policy has decided without a plan")
        given = 0
        if action != PASS:
            held = int(observation.jobs["held"][observation.stages["job"][action.stage]])
            on_offer = observation.on_offer
            if len(observation.classes) > 1:
                legal = observation.legal_kinds(action.stage)
                kinds = [kind for kind in legal if action.kind in (ANY, kind)]
                on_offer = int(observation.classes["on_offer"][kinds].sum())
            given = min(observation.demand(action.stage), action.limit - held, on_offer)
        yield replace(plan, number=number, action=action, given=given)
        simulator.step(action)


def at_number(run: Iterable[Moment], number: int) -> Moment:
    """Return decision `number` of the run, from 1; ConfigError if the run ends earlier."""
    last = 0
    for moment in run:
        last = moment.number
        if last == number:
            return moment
    raise ConfigError(f"there is no decision {number}: the run is over after {last} decisions")


def at_time(run: Iterable[Moment], time_s: float) -> Moment:
    """Return the first decision at `time_s` or later; ConfigError if the run ends earlier."""
    last_s = 0.0
    for moment in run:
        last_s = moment.observation.time_ms / MS_PER_S
        if last_s >= time_s:
            return moment
    raise ConfigError(f"no decision at {time_s:g} s or later: the last one is at {last_s:.1f} s")


def busiest(run: Iterable[Moment]) -> int:
    """Return the number of the decision with the most stages, among the first `SEARCHED`."""
    best, most = 0, -1
    for moment in itertools.islice(run, SEARCHED):
        if moment.num_open > most:
            best, most = moment.number, moment.num_open
    if best == 0:
        raise ConfigError("the run has no decision: its time limit is before the first arrival")
    return best


@dataclass(frozen=True)
class JobShown:
    """A job in the system. Work is measured in executor-seconds at mean durations."""

    name: str
    arrival: int  # place in the order of arrival, from 0
    age_s: float
    work_left_s: float  # work of the tasks not launched
    started_share: float  # share of its work at arrival whose tasks have been launched
    held: int  # executors
    local: int  # executors on offer that are in the job already


@dataclass(frozen=True)
class StageShown:
    """A stage that may be chosen."""

    job: JobShown
    name: str
    probability: float  # probability that it comes first
    place: int  # place in the plan, from 1
    wanted: int  # tasks without an executor
    task_s: float  # mean duration of a task
    critical_path_s: float  # time from its start to the end of the job
    runnable: bool  # True if all parents are complete
    memory_gb: float | None  # memory of a task; None where the trace does not give it


@dataclass(frozen=True)
class LimitShown:
    """A parallelism limit that may be chosen."""

    limit: int
    probability: float


@dataclass(frozen=True)
class ClassShown:
    """A class of executors that the stage may be given."""

    memory_gb: float  # memory of each executor
    probability: float


@dataclass(frozen=True)
class Explanation:
    """One decision of a learned policy.

    A policy plans all choices of a scheduling event at the first of them. Everything here but
    `given` describes the moment at which the plan was made.
    """

    decision: int
    """number in the run, from 1"""
    planned_at: int
    """number of the decision at which the plan was made: `decision`, or an earlier one"""
    time_s: float
    jobs_in_system: int
    executors: int
    on_offer: int
    moving_delay_s: float
    """time that an executor needs to move to another job; 0 in a shared session"""
    stages: tuple[StageShown, ...]
    """stages that may be chosen, the likeliest first"""
    end_probability: float
    """probability that the end of the round comes first and all executors on offer stay idle"""
    end_place: int
    """place of the end in the plan, from 1; no executor is given after it"""
    taken: StageShown | None
    """None: the policy ended the round"""
    taken_limit: int | None
    given: int
    """executors that the choice gives away now"""
    limits: tuple[LimitShown, ...]
    """limits of the job taken, the lowest first"""
    taken_memory_gb: float | None
    """memory of the executors taken; None where there is one class, or the policy named none"""
    classes: tuple[ClassShown, ...]
    """classes for the stage taken, small ones first; empty where there is one class"""
    reasons: tuple[Reason, ...]
    """reasons of at least `LEAST_WEIGHT`, the heaviest first"""
    columns: tuple[Reason, ...]
    """weights of single input columns; empty unless requested"""

    def to_json(self) -> dict[str, Any]:
        """Return everything as JSON-like values, each reason with its weight in the choice."""

        def listed(reasons: tuple[Reason, ...]) -> list[dict[str, Any]]:
            return [{**asdict(reason), "weight": reason.weight} for reason in reasons]

        return {**asdict(self), "reasons": listed(self.reasons), "columns": listed(self.columns)}


def explain_decision(
    network: Network,
    workload: Workload,
    moment: Moment,
    *,
    with_reasons: bool = True,
    with_columns: bool = False,
) -> Explanation:
    """Explain what the policy with this network does at `moment`.

    Each reason and each column costs a pass of the network.
    """
    observation, action = moment.observation, moment.action
    scorer = Scorer(network, workload.arrays, Scales.of(workload.arrays))
    scorer.make_room(len(observation.jobs), len(observation.stages))
    scored = scorer.score(for_kernels(observation).as_batch())
    choices = scored.choices
    choice = _choice(choices, action)
    log_prob = log_probs(scored.scores, choice)
    *chances, end_probability = np.exp(log_prob.entry).tolist()
    ablated = (scorer, scored, moment.cluster_mean, choice)
    # A plan does not sort what comes after the end of the round; the scores do it here.
    behind = int(np.flatnonzero(moment.order == len(moment.order) - 1)[0]) + 1
    rest = np.sort(moment.order[behind:])
    rest = rest[np.argsort(-log_prob.entry[rest], kind="stable")]
    place = np.argsort(np.concatenate([moment.order[:behind], rest])) + 1  # (O + 1,) from 1
    stages = [
        _stage(workload, observation, int(row), chances[index], int(place[index]))
        for index, row in enumerate(choices.open_stage)
    ]
    taken: StageShown | None = None
    limits: tuple[LimitShown, ...] = ()
    classes: tuple[ClassShown, ...] = ()
    if choice.entry < len(stages):
        taken = stages[choice.entry]
        chances_of_limits = np.exp(log_prob.limit).tolist()
        limits = tuple(map(LimitShown, choices.limit[choice.limits].tolist(), chances_of_limits))
        kinds = choices.kind[choice.kinds]
        sizes_gb = (observation.classes["memory_mb"][kinds] / MB_PER_GB).tolist()
        classes = tuple(map(ClassShown, sizes_gb, np.exp(log_prob.kind).tolist()))
    return Explanation(
        decision=moment.number,
        planned_at=moment.planned_at,
        time_s=observation.time_ms / MS_PER_S,
        jobs_in_system=len(observation.active),
        executors=observation.num_executors,
        on_offer=observation.on_offer,
        moving_delay_s=observation.moving_delay_ms / MS_PER_S,
        stages=tuple(sorted(stages, key=lambda shown: -shown.probability)),
        end_probability=end_probability,
        end_place=int(place[-1]),
        taken=taken,
        taken_limit=None if taken is None else action.limit,
        given=moment.given,
        limits=limits,
        taken_memory_gb=memory_gb(observation, action.kind),
        classes=classes,
        reasons=reasons_of(*ablated) if chances and with_reasons else (),
        columns=reasons_of(*ablated, SINGLE_COLUMNS) if chances and with_columns else (),
    )


def _choice(choices: Choices, action: Action) -> Choice:
    if action == PASS:
        return Choice(len(choices.open_stage), slice(0), None, slice(0), None)
    (entry,) = np.flatnonzero(choices.open_stage == action.stage)
    job = choices.open_job[entry]
    limits = slice(*choices.limit_ptr[job : job + 2].tolist())
    kinds = slice(*choices.kind_ptr[entry : entry + 2].tolist())

    def place_of(values: Int64, value: int) -> int | None:
        places = np.flatnonzero(values == value)
        return int(places[0]) if len(places) else None

    return Choice(
        int(entry),
        limits,
        place_of(choices.limit[limits], action.limit),
        kinds,
        place_of(choices.kind[kinds], action.kind),
    )


def _stage(
    workload: Workload, observation: Observation, row: int, probability: float, place: int
) -> StageShown:
    stage = observation.stages[row]
    number = int(stage["job"])
    job = observation.jobs[number]
    recorded = workload.trace.jobs[int(job["template"])]
    memory_mb = float(stage["memory_mb"])
    return StageShown(
        job=JobShown(
            name=recorded.name,
            arrival=number,
            age_s=(observation.time_ms - float(job["arrival_ms"])) / MS_PER_S,
            work_left_s=float(job["remaining_ms"]) / MS_PER_S,
            started_share=1 - float(job["remaining_ms"]) / max(float(job["work_ms"]), 1e-6),
            held=int(job["held"]),
            local=int(job["local"]),
        ),
        name=recorded.stages[row - int(job["first_stage"])].name,
        probability=probability,
        place=place,
        wanted=observation.demand(row),
        task_s=float(stage["mean_ms"]) / MS_PER_S,
        critical_path_s=float(stage["critical_path_ms"]) / MS_PER_S,
        runnable=bool(stage["runnable"]),
        memory_gb=None if np.isnan(memory_mb) else memory_mb / MB_PER_GB,
    )


def memory_gb(observation: Observation, kind: int) -> float | None:
    """Return the memory of the executors of a class; None for any class, and for one without."""
    memory_mb = np.inf if kind == ANY else float(observation.classes["memory_mb"][kind])
    return memory_mb / MB_PER_GB if np.isfinite(memory_mb) else None
