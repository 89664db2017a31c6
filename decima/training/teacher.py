"""A heuristic as teacher: its advice at every step, and who follows it."""

from __future__ import annotations

import numpy as np

from decima.agent.acting import Choices
from decima.agent.memory import Seen
from decima.agent.rollout import Act
from decima.policies import Heuristic
from spark_sim.observation import PASS, Action, observe
from spark_sim.tables import NONE
from spark_sim.vector import VectorSimulator
from traces.numbers import Int32


class Teacher:
    """Advises all lanes; every second lane follows the advice, the others the network.

    The network thus learns what to do in states that it comes to itself, too (DAgger: Ross et
    al. 2011).
    """

    def __init__(self, heuristic: Heuristic) -> None:
        self._heuristic = heuristic

    def __call__(self, simulators: VectorSimulator, seen: Seen, choices: Choices) -> Act:
        """The advice recorded, and the step that is taken."""
        num_open = np.diff(seen.features.open_ptr)
        own_stage = simulators.observation().stage_row[seen.features.open_stage]
        advice = Choices._make(column.copy() for column in choices)
        for lane in np.flatnonzero(num_open > 0):
            action = self._heuristic.decide(observe(simulators.state(int(lane))))
            self._note(seen, advice, own_stage, int(lane), action)
        follows = np.arange(len(num_open)) % 2 == 0
        done = Choices._make(
            (np.where(follows, one, other) for one, other in zip(advice, choices, strict=True))
        )
        return Act(done, advice)

    @staticmethod
    def _note(seen: Seen, advice: Choices, own_stage: Int32, lane: int, action: Action) -> None:
        """Write an action of the heuristic into row `lane`, as the network would have taken it."""
        features = seen.features
        first, last = int(features.open_ptr[lane]), int(features.open_ptr[lane + 1])
        advice.log_prob[lane] = 0.0
        if action == PASS:
            advice.stage[lane], advice.picked[lane] = NONE, last - first
            advice.added[lane] = advice.held[lane] = advice.local[lane] = 0
            return
        picked = int(np.flatnonzero(own_stage[first:last] == action.stage)[0])
        row = first + picked
        job = seen.scene.jobs[seen.scene.rows[features.open_job[row]]]
        held = int(job["held"])
        advice.stage[lane] = features.open_stage[row]
        advice.picked[lane] = picked
        advice.added[lane] = min(action.limit - held, int(features.room[row]))
        advice.held[lane], advice.local[lane] = held, int(job["local"])
        advice.limit[lane] = held + advice.added[lane]
