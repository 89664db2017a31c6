"""What every policy is: something that decides, for one run at a time."""

from __future__ import annotations

from typing import Protocol

from spark_sim import Action, Observation


class Policy(Protocol):
    """Chooses stages and limits. Any object with these two works wherever policies are taken."""

    @property
    def name(self) -> str:
        """The name in tables and at the command line."""
        ...

    def decide(self, observation: Observation) -> Action:
        """The next action at this scheduling event, or `spark_sim.PASS`.

        It is asked again until the executors on offer are given, no stage may be chosen, or it
        passes. The observation changes after the call: copy what is to be kept.
        """
        ...
