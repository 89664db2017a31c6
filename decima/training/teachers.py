"""Teachers: the best heuristic of each setting, and its plans as labels for the network."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from decima.agent.heuristic_plans import HeuristicPlans
from decima.agent.plans import Plans, copied_plans
from decima.agent.tables import Legal
from decima.objectives import Objective
from decima.training.episodes import EpisodeSource, Setting, figures
from spark_sim.vector import VectorSimulator
from traces.arrays import TraceArrays
from traces.numbers import Int64

SEQUENCES = 6  # sequences of a setting, on which its teacher is chosen


class Teacher(NamedTuple):
    """The best of some heuristics in one setting."""

    name: str
    percent: float  # percent of its objective above that of strict fair there


def best_teacher(
    names: tuple[str, ...],
    source: EpisodeSource,
    setting: Setting,
    arrays: TraceArrays,
    objective: Objective,
) -> Teacher:
    """Play all of the heuristics on sequences of the setting and return the best."""
    episodes = source.for_choosing_teachers(setting, SEQUENCES)
    means = {
        name: float(np.mean(figures(episodes, arrays, name, objective)))
        for name in ("strict_fair", *names)
    }
    teachers = [Teacher(name, 100 * (means[name] / means["strict_fair"] - 1)) for name in names]
    return min(teachers, key=lambda teacher: teacher.percent)


class Labeller:
    """Labeller of the decisions of simulations in lockstep with the plans of one teacher."""

    def __init__(self, teacher: str, simulators: VectorSimulator, trace: TraceArrays) -> None:
        self._simulators = simulators
        self._plans = HeuristicPlans(teacher, trace, simulators.state(0).classes)

    def label(self, drawn: Plans, legal: Legal, lanes: Int64) -> Plans:
        """Return `drawn` with the teacher's plans for some `lanes` (L,); 0 entries used if it has
        none.
        """
        found = copied_plans(drawn)
        own = self._simulators.own_rows(legal.open_stage)
        for lane in lanes.tolist():
            state = self._simulators.state(lane)
            found.used[lane] = self._plans.write(state, legal, own, found, lane)
        return found
