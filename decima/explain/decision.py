"""`Explanation`: all that is to say about one decision of a learned policy."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from decima.agent.graph import Graph, GraphSorter, Legal, units_of, whole_graph
from decima.agent.network import PolicyNetwork
from decima.agent.scales import Scales
from decima.agent.scene import scene_of
from decima.agent.scores import Scores
from decima.evaluation.runner import Workload
from decima.explain.attribution import Attributed, Attribution, DecisionFunction, attribute
from decima.explain.moments import Moment
from spark_sim import PASS, Observation
from spark_sim.cluster import MB_PER_GB
from spark_sim.tables import ANY
from traces.numbers import MS_PER_S, Float64, Int64


@dataclass(frozen=True)
class JobShown:
    """A job in the system. Work is executor-seconds at mean durations."""

    name: str
    arrival: int
    """its place in the order of arrival, from 0: a trace's job may arrive many times"""
    age_s: float
    work_left_s: float
    """of the tasks not launched"""
    held: int
    """executors"""
    local: int
    """executors on offer that are in the job already"""
    open_share: float
    """of its stages: those whose parents are all complete, the finished ones included"""


@dataclass(frozen=True)
class StageShown:
    """A stage that may be chosen."""

    job: JobShown
    name: str
    probability: float
    """of being taken first"""
    place: int
    """in the plan's order of preference, from 1"""
    wanted: int
    """tasks without an executor"""
    task_s: float
    """mean duration of a task"""
    critical_path_s: float
    """from its start to the end of the job"""
    runnable: bool
    """all parents are complete"""


@dataclass(frozen=True)
class LimitShown:
    """A parallelism limit that may be chosen."""

    limit: int
    probability: float
    columns: tuple[float, ...]
    """what the network is told of it, as in `decima.agent.columns.LIMIT`"""


@dataclass(frozen=True)
class ClassShown:
    """A class of executors that the stage taken may be given."""

    memory_gb: float
    """of each"""
    probability: float
    columns: tuple[float, ...]
    """what the network is told of it, as in `decima.agent.columns.CLASS`"""


@dataclass(frozen=True)
class Explanation:
    """One decision: what could be done, how likely, what was done and what spoke for it.

    A policy plans all choices of a scheduling event at the first of them. What is told here, the
    number of executors `given` excepted, is of when the plan was made.
    """

    decision: int
    """number in the run, from 1"""
    planned_at: int
    """number of the decision at which the plan was made: `decision`, or one before it"""
    time_s: float
    jobs_in_system: int
    executors: int
    on_offer: int
    moving_delay_s: float
    """that an executor needs to get to another job; 0 in a shared session"""
    stages: tuple[StageShown, ...]
    """that may be chosen: the likeliest first"""
    end_probability: float
    """of the round's end being taken first: of leaving all executors on offer idle"""
    end_place: int
    """of the end in the plan's order, from 1: behind it nothing is given"""
    taken: StageShown | None
    """None: the policy ended the round"""
    taken_limit: int | None
    given: int
    """executors that the choice gives away now"""
    limits: tuple[LimitShown, ...]
    """of the job of the stage taken, the lowest first: in steps of half an octave"""
    taken_memory_gb: float | None
    """of the executors taken; None where there is one class, or the policy named none"""
    classes: tuple[ClassShown, ...]
    """for the stage taken, small ones first; empty where there is one class"""
    log_prob: float
    """of the stage taken, or of the end, being taken first"""
    baseline: float
    """the same where all choices have average columns (`decima.explain.attribution`)"""
    attributions: tuple[Attribution, ...]
    """of the difference between the two; empty where ending the round was the only choice, or where
    nobody asked"""

    def to_json(self) -> dict[str, Any]:
        """Everything as JSON-like values."""
        return asdict(self)


def explain_decision(
    network: PolicyNetwork, workload: Workload, moment: Moment, *, with_reasons: bool = True
) -> Explanation:
    """Explain what the policy with this network does at `moment`.

    Args:
        network: the policy's.
        workload: the jobs.
        moment: the decision.
        with_reasons: False leaves out the attributions, which cost a hundred times as much.
    """
    observation = moment.observation
    units = units_of(Scales.of(workload.arrays), network.rule.numpy())
    graph, legal = whole_graph(scene_of(observation), GraphSorter(workload.arrays), units)
    with torch.no_grad():
        scores: Scores = network(graph)
    choices = torch.cat((scores.stage, scores.end)).double().softmax(0).tolist()
    *chances, end_probability = choices
    ended = moment.action == PASS
    choice = len(chances)
    if not ended:
        choice = int(np.flatnonzero(legal.open_stage == moment.action.stage)[0])
    attributed = Attributed(0.0, 0.0, ())
    if chances and with_reasons:
        function = DecisionFunction(network, graph)
        attributed = attribute(function, moment.cluster_mean, choice)
    place = _places(moment.order, np.array(choices))
    stages = [
        _stage(workload, observation, int(row), chances[index], int(place[index]))
        for index, row in enumerate(legal.open_stage)
    ]
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
        taken=None if ended else stages[choice],
        taken_limit=None if ended else moment.action.limit,
        given=moment.given,
        limits=() if ended else _limits(graph, legal, scores.limit, int(legal.open_job[choice])),
        taken_memory_gb=memory_gb(observation, moment.action.kind),
        classes=() if ended else _classes(observation, graph, legal, scores.kind, choice),
        log_prob=attributed.log_prob,
        baseline=attributed.baseline,
        attributions=attributed.parts,
    )


def _places(order: Int64, chances: Float64) -> Int64:
    """(O + 1,) where each entry of a plan comes, from 1; those behind the end, which nobody has
    sorted, by their chances.
    """
    behind = int(np.flatnonzero(order == len(order) - 1)[0]) + 1
    rest = np.sort(order[behind:])
    rest = rest[np.argsort(-chances[rest], kind="stable")]
    places: Int64 = np.argsort(np.concatenate([order[:behind], rest])) + 1
    return places


def _stage(
    workload: Workload, observation: Observation, row: int, probability: float, place: int
) -> StageShown:
    stage = observation.stages[row]
    number = int(stage["job"])
    job = observation.jobs[number]
    recorded = workload.trace.jobs[int(job["template"])]
    first, size = int(job["first_stage"]), int(job["num_stages"])
    return StageShown(
        job=JobShown(
            name=recorded.name,
            arrival=number,
            age_s=(observation.time_ms - float(job["arrival_ms"])) / MS_PER_S,
            work_left_s=float(job["remaining_ms"]) / MS_PER_S,
            held=int(job["held"]),
            local=int(job["local"]),
            open_share=float(observation.stages["runnable"][first : first + size].mean()),
        ),
        name=recorded.stages[row - first].name,
        probability=probability,
        place=place,
        wanted=observation.demand(row),
        task_s=float(stage["mean_ms"]) / MS_PER_S,
        critical_path_s=float(stage["critical_path_ms"]) / MS_PER_S,
        runnable=bool(stage["runnable"]),
    )


def memory_gb(observation: Observation, kind: int) -> float | None:
    """Of the executors of a class; None for any."""
    return None if kind == ANY else float(observation.classes["memory_mb"][kind]) / MB_PER_GB


def _classes(
    observation: Observation, graph: Graph, legal: Legal, logits: Tensor, choice: int
) -> tuple[ClassShown, ...]:
    """The distribution over the classes that a stage may be given."""
    rows = slice(int(legal.kind_ptr[choice]), int(legal.kind_ptr[choice + 1]))
    chances = logits[rows].double().softmax(0).tolist()
    return tuple(
        ClassShown(float(observation.classes["memory_mb"][kind]) / MB_PER_GB, chance, tuple(told))
        for kind, chance, told in zip(
            legal.kind[rows].tolist(), chances, graph.class_x[rows].tolist(), strict=True
        )
    )


def _limits(graph: Graph, legal: Legal, logits: Tensor, job: int) -> tuple[LimitShown, ...]:
    """The distribution over the limits of a job."""
    rows = slice(int(legal.limit_ptr[job]), int(legal.limit_ptr[job + 1]))
    chances = logits[rows].double().softmax(0).tolist()
    return tuple(
        LimitShown(limit, chance, tuple(told))
        for limit, chance, told in zip(
            legal.limit[rows].tolist(), chances, graph.limit_x[rows].tolist(), strict=True
        )
    )
