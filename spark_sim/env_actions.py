"""The actions of `spark_sim.env`: their space, meaning and legality."""

from __future__ import annotations

from typing import Literal

import numpy as np
from gymnasium import logger, spaces

from spark_sim.cluster import Cluster
from spark_sim.env_view import Sight
from spark_sim.errors import IllegalActionError, SimulationError
from spark_sim.observation import PASS, Action, observe
from spark_sim.simulator import explain_illegal
from spark_sim.tables import ANY
from traces.numbers import Bool, Int64

Limits = Literal["absolute", "relative"]
Illegal = Literal["warn", "pass", "raise"]
_LIMITS = ("absolute", "relative")
_ILLEGAL = ("warn", "pass", "raise")


class ActionForm:
    """Parser of arrays of two or three numbers as actions on the visible jobs and stages."""

    def __init__(self, cluster: Cluster, max_stages: int, limits: Limits, illegal: Illegal) -> None:
        """Check the settings.

        Raises:
            SimulationError: `limits` or `illegal` has an unknown value.
        """
        for name, value, known in (("limits", limits, _LIMITS), ("illegal", illegal, _ILLEGAL)):
            if value not in known:
                choices = ", ".join(repr(choice) for choice in known)
                raise SimulationError(f"{name} must be one of {choices}, got {value!r:.40}")
        self._num_executors = cluster.num_executors
        self._num_classes = len(cluster.classes or (None,))
        self._max_stages = max_stages
        self._is_relative = limits == "relative"
        self._illegal = illegal
        parts = [max_stages + 1, cluster.num_executors]
        if self._num_classes > 1:
            parts.append(self._num_classes + 1)
        self.space = spaces.MultiDiscrete(parts)

    def action(self, sight: Sight, values: Int64, where: str = "") -> tuple[Action, bool]:
        """Return the action of `values`, or a legal substitute, and whether they were legal.

        Args:
            sight: of the simulation, at a decision.
            values: in the action space.
            where: begins the message about an illegal action.

        Raises:
            IllegalActionError: they are illegal, and illegal actions are to be refused.
        """
        try:
            return self._legal(sight, [int(value) for value in values]), True
        except IllegalActionError as error:
            message = f"{where}{error}"
            if self._illegal == "raise":
                raise IllegalActionError(message) from error
            if self._illegal == "warn":
                logger.warn(
                    f"Illegal action, counted as a pass. {message}. Choose what `action_masks()` "
                    "allows; illegal='raise' refuses such actions, illegal='pass' is silent."
                )
                self._illegal = "pass"
            return PASS, False

    def masks(self, sight: Sight) -> Bool:
        """(sum of the action space's sizes,) which values of each part are legal, part by part.

        Any value of one part that is allowed here is legal with any such value of the others.
        """
        lowest = sight.lowest_limits(self._num_executors)
        legal = lowest > 0
        slots = np.zeros(self._max_stages + 1, np.bool_)
        slots[: len(legal)] = legal
        slots[-1] = True
        limits = np.ones(self._num_executors, np.bool_)
        if not self._is_relative and legal.any():
            limits[: lowest.max() - 1] = False
        if self._num_classes == 1:
            return np.concatenate([slots, limits])
        legal_classes = sight.legal_classes()[legal]
        some = legal_classes.any(axis=0) if self._is_relative else legal_classes.all(axis=0)
        return np.concatenate([slots, limits, some, [True]])

    def _legal(self, sight: Sight, values: list[int]) -> Action:
        """The action, if it is legal."""
        slot, limit = values[0], values[1] + 1
        if slot == self._max_stages:
            return PASS
        where = f"slot {slot}, limit {limit}"
        if slot >= len(sight.rows):
            raise IllegalActionError(f"{where}: only slots 0..{len(sight.rows) - 1} hold a stage")
        stage = sight.stages[slot]
        lowest = int(sight.state.jobs["held"][stage["job"]]) + 1
        kind, is_legal_kind = ANY, True
        if len(values) > 2 and values[2] < self._num_classes:
            kind = values[2]
            kinds = observe(sight.state).legal_kinds(int(sight.rows[slot]))
            if self._is_relative and kinds:
                # The class itself, the next larger one that is legal, or the largest that is.
                kind = min((legal for legal in kinds if legal >= kind), default=kinds[-1])
            is_legal_kind = kind in kinds
        if self._is_relative:
            limit = min(lowest - 1 + limit, self._num_executors)
        action = Action(int(sight.rows[slot]), limit, kind)
        is_open = sight.is_due and stage["open"] == 1
        if not is_open or not is_legal_kind or not lowest <= limit <= self._num_executors:
            raise IllegalActionError(f"{where}: {explain_illegal(observe(sight.state), action)}")
        return action
