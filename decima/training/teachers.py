"""Teachers: the best policy of each setting, and its plans as labels for the network."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from decima.agent import plans
from decima.agent.heuristic_plan_kernels import HeuristicPlans
from decima.agent.plans import Plans, copied_plans
from decima.agent.rollout import Lanes, play_out
from decima.agent.scales import Scales
from decima.agent.scorer import Scored, Scorer
from decima.agent.weights import NetworkWeights
from decima.learned import Networks
from decima.objectives import Objective
from decima.training.episodes import EpisodeSource, Setting, figures
from spark_sim.kernels.dispatch import follow
from spark_sim.metrics import measure
from spark_sim.setup import copied
from spark_sim.vector import VectorSimulator
from traces.arrays import TraceArrays
from traces.numbers import Int64

SEQUENCES = 6  # sequences of a setting, on which its teacher is chosen


class Teacher(NamedTuple):
    """The best of some policies in one setting."""

    name: str
    percent: float  # percent of its objective above that of strict fair there


def best_teacher(
    names: tuple[str, ...],
    source: EpisodeSource,
    setting: Setting,
    arrays: TraceArrays,
    objective: Objective,
    networks: Networks,
) -> Teacher:
    """Play all of the policies on sequences of the setting and return the best.

    `networks` are those of the learned ones, by name.
    """
    episodes = source.for_choosing_teachers(setting, SEQUENCES)

    def mean_of(name: str) -> float:
        if name not in networks:
            return float(np.mean(figures(episodes, arrays, name, objective)))
        runs = [episode.run for episode in episodes]
        lanes = Lanes(arrays, setting.config.cluster(), runs, None)
        states = play_out(networks[name], Scales.of(arrays), lanes).states
        return float(np.mean([objective.of(measure(state)) for state in states]))

    fair = mean_of("strict_fair")
    teachers = [Teacher(name, 100 * (mean_of(name) / fair - 1)) for name in names]
    return min(teachers, key=lambda teacher: teacher.percent)


class Labeller(Protocol):
    """Labeller of the decisions of simulations in lockstep with the plans of one teacher."""

    def label(self, drawn: Plans, scored: Scored, lanes: Int64) -> Plans:
        """Return `drawn` with the teacher's plans for some `lanes` (L,) of the simulations; 0
        entries used where it has none.
        """
        ...


class HeuristicLabeller:
    """Labels by a heuristic."""

    def __init__(self, name: str, simulators: VectorSimulator, trace: TraceArrays) -> None:
        self._simulators = simulators
        self._plans = HeuristicPlans(name, trace, simulators.state(0).classes)

    def label(self, drawn: Plans, scored: Scored, lanes: Int64) -> Plans:
        """Return the labels, as `Labeller` says."""
        labels = copied_plans(drawn)
        choices = scored.choices
        rows = self._simulators.own_rows(choices.open_stage)
        for lane in lanes.tolist():
            state = self._simulators.state(lane)
            labels.used[lane] = self._plans.write(state, choices, rows, labels, lane)
        return labels


class NetworkLabeller:
    """Labels by the likeliest plans of another network."""

    def __init__(
        self, network: NetworkWeights, simulators: VectorSimulator, trace: TraceArrays
    ) -> None:
        self._simulators = simulators
        self._scorer = Scorer(network, trace, Scales.of(trace))
        self._scorer.make_room(*simulators.capacity, len(simulators))

    def label(self, drawn: Plans, scored: Scored, lanes: Int64) -> Plans:
        """Return the labels, as `Labeller` says."""
        choices = scored.choices
        _, likeliest = self._scorer.plan(scored.observation, drawn.decision, None)
        wanted = self._simulators.own_numbers(plans.preferences(likeliest, choices))
        used = drawn.used.copy()
        for lane in lanes.tolist():  # how much of a plan a round uses shows when it is followed
            _, used[lane] = follow(copied(self._simulators.state(lane)), wanted, lane)
        is_labelled = np.zeros(len(used), np.int64)
        is_labelled[lanes] = 1
        return plans.chosen(drawn, likeliest, is_labelled)._replace(used=used)
