"""Interface of a policy: it decides, for one run at a time."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from spark_sim import Action, Observation, Simulator


class Policy(Protocol):
    """Protocol of a policy: any object with these two members."""

    @property
    def name(self) -> str:
        """The name in tables and at the command line."""
        ...

    def decide(self, observation: Observation) -> Action:
        """The next action at this scheduling event, or `spark_sim.PASS`.

        It is called again until all executors on offer are given, no stage may be chosen, or it
        passes. The observation changes after the call: copy what you need later.
        """
        ...


@runtime_checkable
class Player(Protocol):
    """A policy that takes a simulation to its end by itself, which is faster."""

    def play(self, simulator: Simulator, *, timed: bool = False) -> float:
        """Run `simulator` to its end; return the CPU seconds spent deciding, if `timed`."""
        ...
