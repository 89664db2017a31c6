"""The actions of `spark_sim.env`: their space, meaning and legality."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
from gymnasium import logger, spaces

from spark_sim.cluster import Cluster
from spark_sim.env_view import Sight
from spark_sim.errors import IllegalActionError, SimulationError
from spark_sim.observation import Action, observe
from spark_sim.simulator import explain_illegal
from spark_sim.tables import ANY, NONE
from spark_sim.vector import member
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

    def chosen(
        self, sight: Sight, actions: Int64, name: Callable[[int], str]
    ) -> tuple[Int64, Int64, Int64, Bool]:
        """Return the stages, limits and classes that actions choose, and which are illegal.

        Args:
            sight: of B simulations.
            actions: (B, parts), in the action space; no matter where no decision is due.
            name: begins the message about an illegal action of a simulation.

        Returns:
            (B,) rows of the simulations' own stages, or NONE for a pass, which stands in for what
            is illegal; limits; classes, or ANY; whether the action was illegal.

        Raises:
            IllegalActionError: one is illegal, and illegal actions are to be refused.
        """
        slots = sight.stage_slot
        slot, limit = actions[:, 0], actions[:, 1] + 1
        is_pass = ~sight.is_due | (slot == self._max_stages)
        has_stage = ~is_pass & (slot < np.diff(slots.first))
        index = np.where(has_stage, slots.first[:-1] + slot, 0)
        lowest = sight.lowest[index] if len(sight.lowest) else np.zeros(len(slot), np.int64)
        kind = np.full(len(slot), ANY, np.int64)
        is_legal = has_stage & (lowest > 0)
        if self._num_classes > 1 and len(sight.classes):
            kind = np.where(actions[:, 2] < self._num_classes, actions[:, 2], ANY)
            legal = sight.classes[index]
            if self._is_relative:
                # The class itself, the next larger one that is legal, or the largest that is.
                above = legal & (np.arange(self._num_classes) >= kind[:, None])
                largest = self._num_classes - 1 - legal[:, ::-1].argmax(axis=1)
                larger = np.where(above.any(axis=1), above.argmax(axis=1), largest)
                kind = np.where((kind != ANY) & legal.any(axis=1), larger, kind)
            is_legal &= (kind == ANY) | legal[np.arange(len(kind)), kind]
        if self._is_relative:
            limit = np.minimum(lowest - 1 + limit, self._num_executors)
        is_legal &= (lowest <= limit) & (limit <= self._num_executors)
        is_illegal = ~is_pass & ~is_legal
        if is_illegal.any():
            self._complain(sight, actions, limit, kind, int(is_illegal.argmax()), name)
        stage = np.full(len(slot), NONE, np.int64)
        stage[is_legal] = sight.stage_row[index[is_legal]]
        return stage, limit, kind, is_illegal

    def masks(self, sight: Sight) -> Bool:
        """(B, sum of the action space's sizes) which values of each part are legal, part by part.

        Any value of one part that is allowed here is legal with any such value of the others.
        """
        lowest, lanes = sight.stage_slot.pad(sight.lowest, np.int64), len(sight.is_due)
        limits = np.ones((lanes, self._num_executors), np.bool_)
        if not self._is_relative:
            limits = np.arange(1, self._num_executors + 1) >= lowest.max(axis=1, keepdims=True)
        always = np.ones((lanes, 1), np.bool_)
        if self._num_classes == 1:
            return np.concatenate([lowest > 0, always, limits], axis=1)
        classes = sight.stage_slot.pad(sight.classes, np.bool_)
        if self._is_relative:
            some = (classes & (lowest > 0)[..., None]).any(axis=1)
        else:
            some = (classes | (lowest == 0)[..., None]).all(axis=1)
        return np.concatenate([lowest > 0, always, limits, some, always], axis=1)

    def _complain(
        self,
        sight: Sight,
        actions: Int64,
        limit: Int64,
        kind: Int64,
        lane: int,
        name: Callable[[int], str],
    ) -> None:
        """Refuse the illegal action of a simulation, warn of it or be silent, as the settings say.

        Raises:
            IllegalActionError: illegal actions are to be refused.
        """
        slot, first = int(actions[lane, 0]), sight.stage_slot.first
        where = f"{name(lane)}slot {slot}, limit {int(actions[lane, 1]) + 1}"
        shown = int(first[lane + 1] - first[lane])
        if slot >= shown:
            message = f"{where}: only slots 0..{shown - 1} hold a stage"
        else:
            state = member(sight.states, lane)
            action = Action(
                int(sight.stage_row[first[lane] + slot]), int(limit[lane]), int(kind[lane])
            )
            message = f"{where}: {explain_illegal(observe(state), action)}"
        if self._illegal == "raise":
            raise IllegalActionError(message)
        if self._illegal == "warn":
            logger.warn(
                f"Illegal action, counted as a pass. {message}. Choose what `action_masks()` "
                "allows; illegal='raise' refuses such actions, illegal='pass' is silent."
            )
            self._illegal = "pass"
