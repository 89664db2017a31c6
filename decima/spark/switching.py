"""`Switch`: puts in force what `Auto` chooses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from decima.registry import Heuristic
from decima.spark.auto import Auto, Choice
from decima.spark.errors import PolicyFaultError
from decima.spark.jobs import LiveJobs
from decima.spark.loading import LoadingPolicy, PolicyFor
from decima.spark.planning import Planner


class SparkOrder(Protocol):
    """A `Control` that can stand back."""

    def leave_to_spark(self, is_left: bool) -> None:
        """Spark's own order from now on, or plans again."""
        ...


class Switch:
    """Switch between Spark's own order and the policies of a planner."""

    def __init__(
        self,
        auto: Auto,
        planner: Planner,
        control: SparkOrder | None,
        policy_for: Callable[[str], PolicyFor],
    ) -> None:
        """Args:
        auto: what chooses.
        planner: what makes plans.
        control: None where nothing of Spark is to change.
        policy_for: makes a candidate.
        """
        self._auto = auto
        self._planner = planner
        self._control = control
        self._policy_for = policy_for
        self._policy: str | None = None
        """that the planner has"""
        self._is_left: bool | None = None

    @property
    def choice(self) -> Choice:
        """Policy in force, and the reason."""
        return self._auto.choice

    @property
    def is_left(self) -> bool:
        """True if the order is left to Spark, whatever is planned."""
        return bool(self._is_left)

    def close(self) -> None:
        """Choose no more."""
        self._auto.close()

    def look(self, live: LiveJobs, now_s: float) -> bool:
        """Take in the newest report; whether plans are to be made of it.

        Args:
            live: after its `update`.
            now_s: on any clock that does not go back.
        """
        choice = self._auto.look(live, now_s)
        if choice is not None and not choice.is_shadow and not self._auto.is_spark_order:
            self._try(choice.policy, live)
        # A policy neither in force nor in shadow is not called.
        is_wanted = self.choice.is_shadow or not self._auto.is_spark_order
        plans = self._policy is not None and is_wanted and self._is_ready(live)
        self._leave(self._auto.is_spark_order or not plans, live)
        return plans

    def give_up(self, why: str, live: LiveJobs) -> None:
        """Leave order to Spark until the next verdict, which may choose the same policy again.

        Args:
            why: the policy is not to be asked again.
            live: after its `update`.
        """
        self._auto.give_up(why, live)
        self._planner.switch(Heuristic("strict_fair").on)
        self._policy = None

    def _try(self, policy: str, live: LiveJobs) -> None:
        try:
            self._take(policy)
        except (ValueError, OSError) as error:  # its file has gone since
            self.give_up(str(error), live)

    def _take(self, policy: str) -> None:
        if policy != self._policy:
            made = self._policy_for(policy)
            self._planner.switch(made)
            if isinstance(made, LoadingPolicy):
                made.start()
            else:
                # Its machine code is loaded while Spark's order is in force.
                self._planner.warm_up(Heuristic(policy).on)
            self._policy = policy

    def _is_ready(self, live: LiveJobs) -> bool:
        loading = self._planner.loading
        try:
            return loading is None or loading.is_ready()
        except PolicyFaultError as fault:
            self._planner.note(fault)
        # No plan is made while none is ready, so it is here that a row of failures ends.
        if self._planner.given_up is not None:
            self.give_up(self._planner.given_up, live)
        return False

    def _leave(self, is_left: bool, live: LiveJobs) -> None:
        self._auto.note_left(is_left, live)
        if is_left != self._is_left and self._control is not None:
            self._control.leave_to_spark(is_left)
        self._is_left = is_left
