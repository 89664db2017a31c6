"""`Planner`: rounds of decisions by a policy that may fail, and what stands in for it."""

from __future__ import annotations

import json
import logging
import time
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from decima.policy import Policy
from decima.registry import Heuristic
from decima.spark.checks import check_above_zero
from decima.spark.errors import PolicyFaultError
from decima.spark.idleness import IdleWatch, tasks_left, unused_slots
from decima.spark.jobs import LiveJobs
from decima.spark.loading import LoadingPolicy, PolicyFor, warm_up
from decima.spark.tables import LiveTables
from decima.spark.worker import Worker
from spark_sim import Action, IllegalActionError, Observation
from spark_sim.rounds import Round
from traces.arrays import TraceArrays

LOG = logging.getLogger("decima.spark")


class Plan(NamedTuple):
    """Plan for the JVM: order of stages, limits of jobs."""

    chosen: tuple[int, ...]
    """Spark's ids of the stages that may start tasks, first come first served"""
    limits: dict[str, int]
    """by job: the most slots that it may hold"""
    considered: tuple[int, ...]
    """all stages with a task to start that the policy knew of"""
    by: str
    """name of the policy that decided, or of what stood in for it"""
    fault: str | None = None
    """why something stood in"""

    def message(self, number: int) -> dict[str, Any]:
        """Format the plan for the JVM."""
        chosen = set(self.chosen)
        others = [stage for stage in self.considered if stage not in chosen]
        return {"number": number, "limits": self.limits, "chosen": self.chosen, "others": others}

    def text(self, number: int) -> str:
        """Format the plan as JSON for `Control.apply`."""
        return json.dumps(self.message(number))


@dataclass(frozen=True)
class Guard:
    """Bounds on a policy's time and failures.

    Raises:
        AttachError: a bound is not above 0.
    """

    decision_s: float = 0.5
    """a round of decisions may take so long"""
    starve_s: float = 60.0
    """a job with a task to start that has held no slot for so long is served first"""
    idle_s: float = 5.0
    """so long slots may stand idle, more than under strict fair, beside tasks that its plans keep
    from starting"""
    failures: int = 5
    """after so many in a row the scheduler detaches; with policy "auto", Spark's order returns
    until the next verdict
    """

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            check_above_zero(f"guard: {name}", value)


class Planner:
    """Maker of plans; it counts failures."""

    def __init__(self, policy_for: PolicyFor, guard: Guard) -> None:
        """Args:
        policy_for: makes the policy, which then decides in a thread. While a `LoadingPolicy` is
            not ready, strict fair decides, which is no failure.
        guard: how far the policy is trusted.
        """
        self._take(policy_for)
        self._guard = guard
        self._tables = LiveTables()
        self._stand_in = Heuristic("strict_fair")
        self._worker = Worker()
        self._busy: Future[tuple[Action, str]] | None = None
        self._decided_by = ""
        self._waits_since_ms: dict[str, int] = {}
        self._idle_watch = IdleWatch(guard.idle_s)
        self.failures = 0
        self.failures_in_a_row = 0
        self.starved = 0
        self.last_fault: str | None = None

    @property
    def is_ready(self) -> bool:
        """False while a learned policy is loaded."""
        return self.loading is None or self.loading.is_loaded

    @property
    def given_up(self) -> str | None:
        """Reason why the policy is not called again, or None."""
        if self.loading is not None and self.loading.refused is not None:
            return self.loading.refused
        if self.failures_in_a_row < self._guard.failures:
            return None
        return f"the policy failed {self.failures_in_a_row} times in a row"

    def note(self, fault: PolicyFaultError) -> None:
        """Count a failure of the policy."""
        self.failures += 1
        self.failures_in_a_row += 1
        self.last_fault = str(fault)
        LOG.warning("policy failed (%d in a row): %s", self.failures_in_a_row, fault)

    def plan(self, live: LiveJobs, *, idle_ms: int = 0, idle_slots: int = 0) -> Plan | None:
        """Return the plan for the current jobs, or None if nothing waits. Errors of a policy are
        caught.

        Where every slot is busy with the last tasks of a stage, there is nothing to decide, but the
        plan still names the stages that wait: they wait for the next one.

        Args:
            live: the session.
            idle_ms, idle_slots: as in `SessionReport`.
        """
        wasted = self._idle_watch.is_fault(
            live.time_ms, idle_ms, lambda: idle_slots - self._idle_under_strict_fair(live)
        )
        fault = None
        if wasted:
            fault = f"{idle_slots} slots idle for {idle_ms / 1000:.1f} s beside tasks that wait"
            self.note(PolicyFaultError(fault))
        round_ = self._tables.fill(live)
        if round_ is None:
            return None
        considered = tuple(self._tables.waiting_stages())
        if not considered:
            return None
        self._serve_starved(round_, live)
        if fault is None:
            fault = self._decide_all(round_, may_forgive=idle_ms == 0)
        else:
            self._replace(round_)
        return Plan(
            tuple(self._tables.spark_stages(round_.chosen())),
            self._tables.limits(),
            considered,
            self._decided_by,
            fault,
        )

    def switch(self, policy_for: PolicyFor) -> None:
        """Let another policy decide, in a thread of its own where the last one hangs."""
        if self.loading is not None:
            self.loading.close()
        if self._busy is not None and not self._busy.done():
            self._worker.close()
            self._worker, self._busy = Worker(), None
        self._take(policy_for)
        self.failures_in_a_row = 0

    def _take(self, policy_for: PolicyFor) -> None:
        self.loading = policy_for if isinstance(policy_for, LoadingPolicy) else None
        self._made = _Made(policy_for)

    def warm_up(self, policy_for: PolicyFor | None) -> None:
        """Compile and load what the first plan needs: `policy_for`, if any, and the stand-in."""
        if policy_for is not None:
            warm_up(policy_for)
        warm_up(lambda _: self._stand_in)

    def close(self) -> None:
        """Wait for nothing: a policy that hangs is left behind."""
        if self.loading is not None:
            self.loading.close()
        self._worker.close()

    # --- deciding --------------------------------------------------------------------------------

    def _decide_all(self, round_: Round, *, may_forgive: bool) -> str | None:
        """Decide until nothing is left to give; how the policy failed, if it did.

        A row of failures ends with a round that leaves nothing idle: one that only passes is no
        proof of health.
        """
        ends = time.monotonic() + self._guard.decision_s
        if not round_.is_open:
            return None
        try:
            if self.loading is not None and not self.loading.is_ready():
                self._replace(round_)
                return None
            while round_.is_open:
                action, self._decided_by = self._ask(round_.observation(), ends)
                try:
                    round_.assign(action)
                except (IllegalActionError, TypeError, AttributeError) as error:
                    raise PolicyFaultError(f"illegal action {action!r}: {error}") from error
        except PolicyFaultError as fault:
            self.note(fault)
            self._replace(round_)
            return str(fault)
        seen = round_.observation()
        if may_forgive and not (unused_slots(seen) > 0 and tasks_left(seen) > 0):
            self.failures_in_a_row = 0
        return None

    def _ask(self, seen: Observation, ends: float) -> tuple[Action, str]:
        """The policy's answer, from its own thread: one that hangs must not hang the scheduler."""
        made, trace = self._made, self._tables.trace
        assert trace is not None  # noqa: S101 - the tables are filled
        if self._busy is not None and not self._busy.done():
            raise PolicyFaultError("it is still busy with an earlier decision")
        self._busy = self._worker.submit(lambda: made.answer(trace, seen))
        try:
            return self._busy.result(timeout=max(0.0, ends - time.monotonic()))
        except TimeoutError as error:
            self._tables.leave()  # to the policy, which goes on to read them
            raise PolicyFaultError(f"no answer within {self._guard.decision_s} s") from error
        except BaseException as error:
            # Raised by the policy in the other thread, SystemExit among what it may be.
            raise PolicyFaultError(f"{type(error).__name__}: {error}") from error

    def _replace(self, round_: Round) -> None:
        """Go on with strict fair where the policy failed, or is not there yet."""
        self._decided_by = self._stand_in.name
        while round_.is_open:
            round_.assign(self._stand_in.decide(round_.observation()))

    def _idle_under_strict_fair(self, live: LiveJobs) -> int:
        """Count the slots that its plan would leave unused although a task waits, like the JVM."""
        round_ = self._tables.fill(live)
        if round_ is None:
            return 0
        self._replace(round_)
        seen = round_.observation()
        return min(unused_slots(seen), tasks_left(seen))

    # --- no job starves --------------------------------------------------------------------------

    def _serve_starved(self, round_: Round, live: LiveJobs) -> None:
        """Give a slot to jobs that have waited beyond the bound, before the policy decides."""
        now_ms = live.time_ms
        seen = round_.observation()
        # From the plan at which it was first seen to wait: there may have been none while it ran.
        waits_since_ms = {
            job.key: self._waits_since_ms.get(job.key, now_ms)
            for row, job in enumerate(self._tables.jobs)
            if not job.running and seen.jobs[row]["open_stages"] > 0
        }
        self._waits_since_ms = waits_since_ms
        starved = [
            row
            for row, job in enumerate(self._tables.jobs)
            if now_ms - waits_since_ms.get(job.key, now_ms) > self._bound_ms
        ]
        for row in starved:
            if not round_.is_open:
                break
            stage = next(
                (int(one) for one in seen.open_stages() if seen.stages[one]["job"] == row), None
            )
            if stage is not None:
                round_.assign(Action(stage, int(seen.jobs[row]["held"]) + 1))
                self.starved += 1
                LOG.warning("%s starved: it is given a slot", self._tables.jobs[row].key)

    @property
    def _bound_ms(self) -> float:
        return self._guard.starve_s * 1000


class _Made:
    """A policy and the graphs that it was made for.

    An object of its own, so that an answer that comes after a switch changes nothing of what
    decides then.
    """

    def __init__(self, policy_for: PolicyFor) -> None:
        self._policy_for = policy_for
        self._trace: TraceArrays | None = None
        self._policy: Policy | None = None

    def answer(self, trace: TraceArrays, seen: Observation) -> tuple[Action, str]:
        """Return the policy's action and name."""
        if self._policy is None or trace is not self._trace:
            self._policy, self._trace = self._policy_for(trace), trace
        return self._policy.decide(seen), self._policy.name
