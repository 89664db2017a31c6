"""Teachers: the best heuristic of each setting, and its plans as labels for the network."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from decima.agent.graph import Legal
from decima.agent.plans import Plans
from decima.policies import Heuristic
from decima.training.episodes import Episode, EpisodeSource, Setting, played
from decima.training.teacher_kernels import Round, label
from spark_sim.metrics import measure
from spark_sim.tables import State
from spark_sim.vector import VectorSimulator
from traces.arrays import TraceArrays
from traces.numbers import Int64

SEQUENCES = 6
"""of a setting, on which its teacher is chosen"""


class Teacher(NamedTuple):
    """The best of some heuristics in one setting."""

    name: str
    percent: float
    """its average JCT above that of strict fair there"""


def best_teacher(
    names: tuple[str, ...], source: EpisodeSource, setting: Setting, arrays: TraceArrays
) -> Teacher:
    """Play all of the heuristics on sequences of the setting and return the best."""
    episodes = source.for_choosing_teachers(setting, SEQUENCES)
    fair_s = average_jct_s("strict_fair", episodes, arrays)
    found = [
        Teacher(name, 100 * (average_jct_s(name, episodes, arrays) / fair_s - 1)) for name in names
    ]
    return min(found, key=lambda one: one.percent)


def average_jct_s(name: str, episodes: list[Episode], arrays: TraceArrays) -> float:
    """Mean over episodes of one setting of their average JCT under a heuristic."""
    policy = Heuristic(name)
    return float(np.mean([measure(played(one, arrays, policy)).avg_jct_s for one in episodes]))


class Labeller:
    """Labels decisions of simulations in lockstep with the plans of one teacher."""

    def __init__(self, teacher: str, simulators: VectorSimulator, trace: TraceArrays) -> None:
        self._simulators = simulators
        policy = Heuristic(teacher)
        self._compiled = policy.compiled(trace, simulators.state(0).classes)

    def label(self, drawn: Plans, legal: Legal, lanes: Int64) -> Plans:
        """Return `drawn` with the teacher's plans in the place of those of some lanes.

        Args:
            drawn: a plan for each simulation.
            legal: what may be chosen.
            lanes: (L,) those to label. One where the teacher has no plan has 0 entries to look at.
        """
        found = drawn._replace(
            order=drawn.order.copy(),
            used=drawn.used.copy(),
            limit=drawn.limit.copy(),
            kind=drawn.kind.copy(),
        )
        own = self._simulators.observation().stage_row[legal.open_stage].astype(np.int64)
        for lane in lanes.tolist():
            state = copied(self._simulators.state(lane))
            found.used[lane] = label(state, *self._compiled, _round(found, legal, own, lane))
        return found


def _round(of: Plans, legal: Legal, own: Int64, lane: int) -> Round:
    """Return views of what belongs to one decision."""
    first, last = int(legal.open_ptr[lane]), int(legal.open_ptr[lane + 1])
    first_job, last_job = int(legal.job_ptr[lane]), int(legal.job_ptr[lane + 1])
    begin, end = int(of.ptr[lane]), int(of.ptr[lane + 1])
    jobs = slice(int(of.job_ptr[lane]), int(of.job_ptr[lane + 1]))
    return Round(
        own[first:last],
        legal.open_job[first:last] - first_job,
        legal.limit,
        legal.limit_ptr[first_job : last_job + 1],
        legal.kind,
        legal.kind_ptr[first : last + 1],
        np.empty(last_job - first_job, np.int64),
        np.empty(last - first, np.bool_),
        of.order[begin:end],
        of.limit[jobs],
        of.kind[begin:end],
    )


def copied(state: State) -> State:
    """Return tables of its own; the trace is shared."""
    return State._make([*(table.copy() for table in state[:-1]), state.trace])
