"""`attach`: check a session, choose what acts on it, and let a policy decide for it."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from decima.policies import Heuristic, is_learned, model_path
from decima.policy import Policy
from decima.spark.errors import AttachError, PolicyFaultError
from decima.spark.jobs import LiveJobs
from decima.spark.jvm import Jvm, check_session
from decima.spark.model_card import read_card, trained_slots
from decima.spark.planning import Guard, Planner, PolicyFor
from decima.spark.policy_process import PolicyProcess
from decima.spark.priors import Priors
from decima.spark.scheduler import Control, Scheduler
from decima.spark.soft import SoftControl
from spark_sim import Protocol
from traces import Trace

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
    ready_s: float | None = None,
) -> Scheduler:
    """Let `policy` schedule the concurrent jobs of a session, until `detach`.

    >>> with decima.spark.attach(spark, policy="strict_fair") as scheduler:
    ...     run_jobs(spark)

    Args:
        spark: a SparkSession, or its SparkContext.
        policy: a heuristic by name, "decima" (the package's model for shared sessions), a model
            file, or an object with `name` and `decide`.
        mode: "exact" (order and limits hold), "soft" (FAIR pools get shares, no exact caps),
            "shadow" (decide, log, change nothing) or "auto": exact where it can be, else soft.
        guard: how far the policy is trusted.
        lapse_s: without a decision for so long while slots stand idle, Spark's own order returns.
        hold_s: a new stage waits for its first decision at most so long.
        priors: earlier runs of the same jobs, for durations before anything is measured.
        decision_log: a file for one JSON line a plan.
        metrics_port: serve Prometheus metrics there, to this machine only.
        ready_s: wait at most so long for a learned policy; None: strict fair decides meanwhile.

    Raises:
        AttachError: (one line) this session cannot be scheduled, or is already, or no such model.
        PolicyError: there is no such policy.
    """
    if mode not in MODES:
        raise AttachError(f"mode {mode!r}: there are {', '.join(MODES)}")
    chosen_guard = Guard() if guard is None else guard
    policy_for, name = _policy_for(policy)
    control, mode = _control(check_session(spark), mode, lapse_s, hold_s)
    planner = Planner(policy_for, chosen_guard)
    _prepare(planner, policy, ready_s)
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
    if metrics_port is not None:
        scheduler.serve_metrics(metrics_port)
    try:
        scheduler.start()
    except AttachError:
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
        return SoftControl(context), "soft"
    return exact, "exact" if mode == "auto" else mode


def _policy_for(policy: str | Policy) -> tuple[PolicyFor | PolicyProcess, str]:
    """What decides for the jobs of the moment, and its name; unknown ones are refused."""
    if not isinstance(policy, str):
        if not callable(getattr(policy, "decide", None)):
            raise AttachError(f"policy {policy!r} has no method decide(observation)")
        own = policy
        return (lambda _trace: own), str(getattr(own, "name", type(own).__name__))
    if is_learned(policy):
        read_card(model_path(policy, Protocol.SESSION))
        return PolicyProcess(policy), policy
    heuristic = Heuristic(policy)
    return (lambda _trace: heuristic), policy


def _trained_slots(policy: str | Policy) -> int | None:
    """The slots that a model was trained for; None for other policies, and where nobody says."""
    if not isinstance(policy, str) or not is_learned(policy):
        return None
    return trained_slots(read_card(model_path(policy, Protocol.SESSION)))


def _prepare(planner: Planner, policy: str | Policy, ready_s: float | None) -> None:
    """Start what takes a while; nothing of it is left if it fails."""
    process = planner.process
    try:
        if process is not None:
            process.start()
        is_heuristic = isinstance(policy, str) and process is None
        planner.warm_up((lambda _trace: Heuristic(str(policy))) if is_heuristic else None)
        if process is not None and ready_s is not None:
            _wait_for(process, ready_s)
    except BaseException:
        planner.close()
        raise


def _wait_for(process: PolicyProcess, ready_s: float) -> None:
    try:
        is_ready = process.is_ready(ready_s)
    except PolicyFaultError as error:
        raise AttachError(str(error)) from error
    if not is_ready:
        raise AttachError(f"{process.name}: not ready after {ready_s:g} s")
