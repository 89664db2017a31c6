"""`attach`: check a session, choose what acts on it, and let a policy decide for it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from decima.policies import Heuristic, is_learned
from decima.policy import Policy
from decima.spark.errors import AttachError
from decima.spark.jobs import LiveJobs
from decima.spark.jvm import Jvm, check_session
from decima.spark.planning import Guard, Planner, PolicyFor
from decima.spark.priors import Priors
from decima.spark.scheduler import Control, Scheduler
from decima.spark.soft import SoftControl
from spark_sim import Action, Observation, Protocol
from spark_sim.views import read_only
from traces import Trace
from traces.arrays import TraceArrays

LOG = logging.getLogger("decima.spark")

MODES = ("auto", "exact", "soft", "shadow")


def attach(
    spark: Any,
    policy: str | Policy = "decima",
    *,
    mode: str = "auto",
    guard: Guard | None = None,
    lapse_s: float = 2.0,
    hold_s: float = 0.1,
    priors: Trace | None = None,
    decision_log: Path | str | None = None,
    metrics_port: int | None = None,
) -> Scheduler:
    """Let `policy` schedule the concurrent jobs of a session, until `detach`.

    >>> with decima.spark.attach(spark, policy="strict_fair") as scheduler:
    ...     run_jobs(spark)

    Args:
        spark: a SparkSession, or its SparkContext.
        policy: a heuristic by name, "decima" (the package's model for shared sessions), a model
            file, or an object with `name` and `decide`.
        mode: "exact" (order and limits hold), "soft" (FAIR pools get shares; order and caps are not
            exact), "shadow" (decide, log, change nothing) or "auto": exact where this Spark has
            what it takes, else soft.
        guard: how far the policy is trusted.
        lapse_s: without a decision for so long while slots stand idle, Spark's own order returns.
        hold_s: a new stage waits for its first decision at most so long.
        priors: earlier runs of the same jobs, for durations before anything is measured.
        decision_log: a file for one JSON line a plan.
        metrics_port: serve Prometheus metrics there, to this machine only.

    Raises:
        AttachError: (one line) this session cannot be scheduled, or is already.
        PolicyError, ModelError: there is no such policy or model.
    """
    if mode not in MODES:
        raise AttachError(f"mode {mode!r}: there are {', '.join(MODES)}")
    chosen_guard = Guard() if guard is None else guard
    policy_for, name = _policy_for(policy)
    control, mode = _control(check_session(spark), mode, lapse_s, hold_s)
    planner = Planner(policy_for, chosen_guard)
    scheduler = Scheduler(
        control,
        planner,
        LiveJobs(None if priors is None else Priors(priors)),
        mode=mode,
        policy=name,
        guard=chosen_guard,
        decision_log=None if decision_log is None else Path(decision_log),
        trained_slots=_trained_slots(policy),
    )
    try:
        planner.warm_up(_policy_for(policy)[0] if isinstance(policy, str) else None)
        if metrics_port is not None:
            scheduler.serve_metrics(metrics_port)
        scheduler.start()
    except BaseException:  # all or nothing: no thread, port or listener is left behind
        scheduler.detach()
        raise
    return scheduler


def _control(context: Any, mode: str, lapse_s: float, hold_s: float) -> tuple[Control, str]:
    """What acts on this session, and the mode that "auto" comes to."""
    if mode == "soft":
        return SoftControl(context), mode
    try:
        exact = Jvm(
            context,
            lapse_ms=round(1000 * lapse_s),
            hold_ms=round(1000 * hold_s),
            observe_only=mode == "shadow",
        )
    except AttachError as error:
        if mode != "auto":
            raise
        LOG.warning("exact mode is not possible (%s): trying soft mode", error)
        try:
            return SoftControl(context), "soft"
        except AttachError as soft:
            raise AttachError(
                f"exact mode is not possible ({error}), nor is soft: {soft}"
            ) from soft
    return exact, "exact" if mode == "auto" else mode


def _policy_for(policy: str | Policy) -> tuple[PolicyFor, str]:
    """How to make the policy for the jobs of the moment, and its name; unknown ones are refused."""
    if not isinstance(policy, str):
        if not callable(getattr(policy, "decide", None)):
            raise AttachError(f"policy {policy!r} has no method decide(observation)")
        own = Guest(policy)
        return (lambda _trace: own), own.name
    if is_learned(policy):
        return _learned(policy), policy
    heuristic = Heuristic(policy)
    return (lambda _trace: heuristic), policy


class Guest:
    """A policy that somebody else wrote: it reads what we go by and cannot change it."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.name = str(getattr(policy, "name", type(policy).__name__))

    def decide(self, observation: Observation) -> Action:
        """The policy's answer (`decima.policy.Policy`)."""
        return self._policy.decide(read_only(observation))


def _trained_slots(policy: str | Policy) -> int | None:
    """The slots that a model was trained for; None for other policies, and where nobody says."""
    if not isinstance(policy, str) or not is_learned(policy):
        return None
    from decima.agent.model import shared_model
    from decima.learned import model_path

    card = shared_model(model_path(policy, Protocol.SESSION)).card
    found = card.get("config", {}).get("workload", {}).get("executors")
    return found if isinstance(found, int) else None


def _learned(name: str) -> Callable[[TraceArrays], Policy]:
    from decima.agent.policy import LearnedPolicy
    from decima.agent.scales import Scales
    from decima.learned import load

    network = load(name, Protocol.SESSION)
    known: list[Scales] = []

    def policy_for(trace: TraceArrays) -> Policy:
        now = Scales.of(trace)
        if known:
            # What is typical is learned slowly: a single large job must not make itself usual.
            now = Scales(*(0.9 * old + 0.1 * new for old, new in zip(
                asdict(known[0]).values(), asdict(now).values(), strict=True)))  # fmt: skip
        known[:] = [now]
        return LearnedPolicy(network, trace, scales=now, name=name)

    return policy_for
