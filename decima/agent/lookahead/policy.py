"""`SearchPolicy`: the network proposes plans, and a look ahead chooses one, at every decision."""

from __future__ import annotations

import time

from decima.agent.lookahead.candidates import Width
from decima.agent.lookahead.lookahead import Futures, Lookahead, Proposal, Verdict
from decima.agent.plans import preferences
from decima.agent.policy import LearnedPolicy
from decima.agent.tables import Legal
from decima.agent.weights import Network
from decima.errors import PolicyError
from spark_sim import Action, Observation, Simulator, Status
from spark_sim.kernels.choices import follow
from traces.arrays import TraceArrays


class SearchPolicy:
    """Policy that plays a whole simulation. `decide` raises: a live cluster cannot be copied."""

    def __init__(
        self,
        network: Network,
        trace: TraceArrays,
        *,
        key: int = 0,
        width: Width | None = None,
        futures: Futures | None = None,
        name: str = "decima:search",
    ) -> None:
        self.name = name
        self._network = LearnedPolicy(network, trace, name=name)
        self._trace = trace
        self._key = key
        self._width = Width() if width is None else width
        self._futures = Futures() if futures is None else futures
        self.changed = 0  # number of decisions at which another plan than the likeliest was better

    def decide(self, observation: Observation) -> Action:
        """Refuse (PolicyError), as an observation alone cannot be simulated."""
        raise PolicyError(
            f"policy {self.name!r} plays copies of the simulation and decides nowhere else; "
            f"{self.name.partition(':')[0]!r} does"
        )

    def play(self, simulator: Simulator, *, timed: bool = False) -> float:
        """Run `simulator` to its end; return the CPU seconds spent deciding, if `timed`."""
        classes = simulator.state.classes
        lookahead = Lookahead(self._width, self._futures, self._trace, classes)
        spent_s = 0.0
        decisions = 0
        while simulator.status is Status.DECIDE:
            began = time.process_time()
            verdict, legal = self._verdict(simulator, lookahead, self._key + decisions)
            self.changed += int(not verdict.is_likeliest)
            spent_s += time.process_time() - began
            decisions += 1
            wanted = preferences(verdict.plan, legal)
            simulator.finish(int(follow(simulator.state, wanted, 0)[0]))
        return spent_s if timed else 0.0

    def _verdict(
        self, simulator: Simulator, lookahead: Lookahead, key: int
    ) -> tuple[Verdict, Legal]:
        seen = self._network.plan(simulator.observation())
        planned = self._network.planned
        if planned is None:
            raise RuntimeError("there is no plan after a look")
        legal = seen.tables.legal
        proposal = Proposal(seen.scores, legal, planned.plan, legal.open_stage)
        return lookahead.best(simulator.state, proposal, key), legal
