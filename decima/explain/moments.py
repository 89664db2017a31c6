"""Playing a run of a learned policy up to the decision that is to be explained."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from decima.agent import columns
from decima.evaluation.config import ConfigError, EvaluationConfig
from decima.evaluation.runner import Workload
from decima.evaluation.sequences import draw_sequence
from decima.learned import learned_policy
from spark_sim import Action, Observation, Protocol, Simulator, Status, Streams
from traces.numbers import MS_PER_S

SEARCHED = 500
"""decisions among which `busiest` looks"""


@dataclass(frozen=True, eq=False)
class Moment:
    """One decision of a run, before its action is taken."""

    number: int
    """of the decision in the run, from 1"""
    observation: Observation
    """changes when the run goes on"""
    action: Action
    """what the policy does"""
    num_open: int
    """stages that it may choose"""
    moving_delay_s: float
    """of an executor to another job"""
    cluster_mean: NDArray[np.float64]
    """(len(CLUSTER),) mean columns of the cluster over this decision and all before it"""


def moments(
    workload: Workload, config: EvaluationConfig, name: str, sequence: int
) -> Iterator[Moment]:
    """The decisions of the policy `name` on a sequence, as `decima evaluate` would play it.

    Raises:
        ValueError: (one line) the sequence, or the model, breaks a rule.
    """
    arrivals = draw_sequence(config, workload.trace, sequence)
    streams = Streams(config.seed, sequence)
    simulator = Simulator(
        workload.arrays,
        config.cluster(),
        arrivals.arrival_ms,
        arrivals.job,
        duration_key=streams.duration_key(),
    )
    key = int(streams.actions().integers(2**63))
    policy = learned_policy(name, workload.arrays, key)
    total = np.zeros(len(columns.CLUSTER))
    is_session = simulator.cluster.protocol is Protocol.SESSION
    moving_delay_s = 0.0 if is_session else simulator.cluster.moving_delay_ms / MS_PER_S
    for number in itertools.count(1):
        if simulator.status is not Status.DECIDE:
            return
        observation = simulator.observation()
        features = policy.look(observation).features
        total += features.cluster_x[0]
        action = policy.decide(observation)
        num_open = len(features.open_stage)
        yield Moment(number, observation, action, num_open, moving_delay_s, total / number)
        simulator.step(action)


def at_number(run: Iterable[Moment], number: int) -> Moment:
    """Decision `number` of the run, from 1.

    Raises:
        ConfigError: the run is over before.
    """
    last = 0
    for moment in run:
        last = moment.number
        if last == number:
            return moment
    raise ConfigError(f"there is no decision {number}: the run is over after {last} decisions")


def at_time(run: Iterable[Moment], time_s: float) -> Moment:
    """The first decision at `time_s` or later.

    Raises:
        ConfigError: the run is over before.
    """
    last_s = 0.0
    for moment in run:
        last_s = moment.observation.time_ms / MS_PER_S
        if last_s >= time_s:
            return moment
    raise ConfigError(f"no decision at {time_s:g} s or later: the last one is at {last_s:.1f} s")


def busiest(run: Iterable[Moment]) -> int:
    """Number of the decision with the most stages to choose from, among the first `SEARCHED`.

    Raises:
        ConfigError: the run has no decision.
    """
    best, most = 0, -1
    for moment in itertools.islice(run, SEARCHED):
        if moment.num_open > most:
            best, most = moment.number, moment.num_open
    if best == 0:
        raise ConfigError("the run has no decision: its time limit is before the first arrival")
    return best
