"""`Explanation`: all that is to say about one decision of a learned policy."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from decima.agent.acting import limits_of
from decima.agent.memory import GraphSorter, Memory, Seen
from decima.agent.network import PolicyNetwork
from decima.agent.scales import Scales
from decima.agent.scene import scene_of
from decima.evaluation.runner import Workload
from decima.explain.attribution import Attributed, Attribution, DecisionFunction, attribute
from decima.explain.moments import Moment
from spark_sim import PASS, Observation
from traces.numbers import MS_PER_S


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


@dataclass(frozen=True)
class Explanation:
    """One decision: what could be done, how likely, what was done and what spoke for it."""

    decision: int
    """number in the run, from 1"""
    time_s: float
    jobs_in_system: int
    executors: int
    on_offer: int
    moving_delay_s: float
    """that an executor needs to get to another job; 0 in a shared session"""
    stages: tuple[StageShown, ...]
    """that may be chosen: the likeliest first"""
    pass_probability: float
    taken: StageShown | None
    """None: the policy passed"""
    taken_limit: int | None
    limits: tuple[LimitShown, ...]
    """for the stage taken, the lowest first: those that differ in what it gets now"""
    log_prob: float
    """of the stage taken, or of passing"""
    baseline: float
    """the same where all choices have average columns (`decima.explain.attribution`)"""
    attributions: tuple[Attribution, ...]
    """of the difference between the two; empty where passing was the only choice"""

    def to_json(self) -> dict[str, Any]:
        """Everything as JSON-like values."""
        return asdict(self)


def explain_decision(network: PolicyNetwork, workload: Workload, moment: Moment) -> Explanation:
    """Explain what the policy with this network does at `moment`."""
    observation = moment.observation
    memory = Memory(network, workload.arrays, Scales.of(workload.arrays))
    memory.make_room(len(observation.jobs), len(observation.stages))
    seen = memory.look(scene_of(observation))
    open_stage = seen.features.open_stage
    choice = len(open_stage)
    if moment.action != PASS:
        choice = int(np.flatnonzero(open_stage == moment.action.stage)[0])
    probability, attributed = np.ones(1), Attributed(0.0, 0.0, ())
    if len(open_stage):
        function = DecisionFunction(network, GraphSorter(workload.arrays), seen)
        at = function.columns(memory.node_x)
        with torch.no_grad():
            probability = function(at).double().exp().numpy()
        attributed = attribute(function, at, moment.cluster_mean, choice)
    stages = [
        _stage(workload, observation, int(stage), float(chance))
        for stage, chance in zip(open_stage, probability, strict=False)
    ]
    passed = choice == len(stages)
    return Explanation(
        decision=moment.number,
        time_s=observation.time_ms / MS_PER_S,
        jobs_in_system=len(observation.active),
        executors=observation.num_executors,
        on_offer=observation.on_offer,
        moving_delay_s=moment.moving_delay_s,
        stages=tuple(sorted(stages, key=lambda shown: -shown.probability)),
        pass_probability=float(probability[len(stages) :].sum()),
        taken=None if passed else stages[choice],
        taken_limit=None if passed else moment.action.limit,
        limits=() if passed else _limits(network, seen, choice, moment.action.limit),
        log_prob=attributed.log_prob,
        baseline=attributed.baseline,
        attributions=attributed.parts,
    )


def _stage(
    workload: Workload, observation: Observation, row: int, probability: float
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
        wanted=observation.demand(row),
        task_s=float(stage["mean_ms"]) / MS_PER_S,
        critical_path_s=float(stage["critical_path_ms"]) / MS_PER_S,
        runnable=bool(stage["runnable"]),
    )


@torch.no_grad()
def _limits(network: PolicyNetwork, seen: Seen, choice: int, taken: int) -> tuple[LimitShown, ...]:
    """The distribution over the limits of the stage `choice`."""
    scene, features = seen.scene, seen.features
    row = np.array([choice])
    room = features.room[row]
    if not network.config.limit_head or room[0] == 1:
        return (LimitShown(taken, 1.0),)
    job = scene.jobs[scene.rows[features.open_job[row]]]
    limits = limits_of(
        job["held"].astype(np.int64),
        room,
        job["local"].astype(np.int64),
        np.diff(scene.job_ptr),
        scene.num_executors.astype(np.int64),
        row,
    )
    logits = network.limit_logits(seen.embeddings, seen.inputs, limits.inputs)
    lowest = int(job["held"][0]) + 1
    return tuple(
        LimitShown(lowest + index, chance)
        for index, chance in enumerate(logits.double().softmax(0).tolist())
    )
