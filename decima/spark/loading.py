"""Policies before their first plan: what has to be loaded and compiled, and by whom."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import wait as wait_for

from decima.policy import Policy
from decima.policy_names import looks_ahead, model_path
from decima.spark.errors import PolicyFaultError
from decima.spark.jobs import LiveJobs
from decima.spark.reports import SessionReport, TaskSet
from decima.spark.tables import LiveTables
from decima.spark.worker import Worker
from spark_sim.rounds import Round
from traces.arrays import TraceArrays
from traces.spark_log.events import JobStart, StageInfo

PolicyFor = Callable[[TraceArrays], Policy]
"""factory of the policy, from the graphs of the jobs in observations"""
LOADING_S = 300.0
"""time in which every policy is ready: its kernels may have to be compiled"""
_WEIGHT_OF_NEW = 0.1


class LoadingPolicy:
    """Factory of a learned policy that a thread loads; once it is ready, a `PolicyFor`."""

    def __init__(self, name: str) -> None:
        """Args:
        name: of a learned policy (`decima.policy_names.is_learned`).
        """
        self.name = name
        self.refused: str | None = None
        """why the policy cannot be used"""
        self._made: Future[PolicyFor] | None = None
        self._began_s = 0.0
        self._is_closed = False

    @property
    def is_loaded(self) -> bool:
        """True once the policy can decide."""
        return self._made is not None and self._made.done() and self._made.exception() is None

    def start(self) -> None:
        """Begin to load, and return at once."""
        worker = Worker("decima-loading")
        self._began_s = time.monotonic()
        self._made = worker.submit(self._load)
        worker.close()  # the thread ends with the call

    def close(self) -> None:
        """Load no more than what is being loaded."""
        self._is_closed = True

    def _load(self) -> PolicyFor:
        """Return the factory, when all that it needs is compiled."""
        other = learned(self.name)  # not the one that decides: that must not know these jobs
        if not self._is_closed:
            warm_up(other)
        return learned(self.name)

    def is_ready(self, wait_s: float = 0.0) -> bool:
        """Return whether the policy can decide.

        Args:
            wait_s: wait for it at most so long.

        Raises:
            PolicyFaultError: it cannot be loaded, or not within `LOADING_S`.
        """
        if self._made is None:
            return False
        wait_for([self._made], wait_s)
        if not self._made.done():
            if time.monotonic() - self._began_s <= LOADING_S:
                return False
            self.refused = f"not loaded after {LOADING_S:g} s"
            raise PolicyFaultError(self.refused)
        error = self._made.exception()
        if error is None:
            return True
        is_ours = isinstance(error, ValueError)  # as all errors of this package are
        self.refused = str(error) if is_ours else f"{type(error).__name__}: {error}"
        raise PolicyFaultError(self.refused)

    def __call__(self, trace: TraceArrays) -> Policy:
        """Make the policy for these jobs, once it is ready."""
        if self._made is None:
            raise RuntimeError(f"{self.name}: call start() first")
        return self._made.result()(trace)


def learned(name: str) -> PolicyFor:
    """Return a factory of the learned policy `name` for the current jobs, from its file of now.

    Raises:
        ModelError: the file is no model that this version can use.
    """
    # Not before: numba takes a second to load.
    from decima.agent.lookahead.live import ArrivalWatch, LiveSearchPolicy
    from decima.agent.model import load_model
    from decima.agent.policy import LearnedPolicy
    from decima.agent.scales import Scales

    weights = load_model(model_path(name)).weights
    known: list[Scales] = []
    arrivals = ArrivalWatch()

    def policy_for(graphs: TraceArrays) -> Policy:
        now = Scales.of(graphs)
        if known:
            # What is typical is learned slowly: a single large job must not make itself usual.
            pairs = zip(known[0], now, strict=True)
            now = Scales(*((1 - _WEIGHT_OF_NEW) * old + _WEIGHT_OF_NEW * new for old, new in pairs))
        known[:] = [now]
        if looks_ahead(name):
            return LiveSearchPolicy(weights, graphs, scales=now, arrivals=arrivals, name=name)
        return LearnedPolicy(weights, graphs, scales=now, name=name)

    return policy_for


def warm_up(policy_for: PolicyFor) -> None:
    """Decide twice for two jobs that do not exist, so that the first real plan need not wait for
    compilers and look-ups.

    Args:
        policy_for: makes a policy that is thrown away: it must not remember these jobs.
    """
    for _ in range(2):
        tables, round_ = two_jobs()
        policy = policy_for(tables.state.trace)
        while round_.is_open:
            round_.assign(policy.decide(round_.observation()))


def two_jobs() -> tuple[LiveTables, Round]:
    """Return tables of two jobs that do not exist, and the round that is due for them."""
    stages = (StageInfo(0, 2, (), b"a"), StageInfo(1, 2, (0,), b"b"))
    sets = (TaskSet(0, 0, "spark 0", 2, 0, 1), TaskSet(2, 0, "spark 1", 2, 0, 0))
    begun = (JobStart(0, 1, stages, {}), JobStart(1, 1, (StageInfo(2, 2, (), b"c"),), {}))
    live = LiveJobs()
    live.update(SessionReport(2, 4, 0, False, True, 0, sets, begun))
    tables = LiveTables()
    round_ = tables.fill(live)
    assert round_ is not None  # noqa: S101 - it has slots and stages
    return tables, round_
