"""`attach`: check a session, and let a policy decide for it, by the planner in its JVM."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from pathlib import Path
from typing import Any, TypeVar

from decima.policy import Policy
from decima.policy_names import decides_in_jvm, is_learned, model_path
from decima.registry import Heuristic, Parameters
from decima.spark.answering import Answers, PoliciesByName
from decima.spark.auto import AUTO, Auto, AutoSettings, EvaluatorProcess
from decima.spark.decision_log import DecisionLogFiles
from decima.spark.jvm import ControlError, check_session, new_object
from decima.spark.loading import (
    read_card,
    read_parameters,
    ready_policy,
    trained_slots_of,
    warm_up,
)
from decima.spark.priors import load_priors, read_priors
from decima.spark.scheduler import Scheduler, loading_fault
from decima.spark.settings import READY_S, TIMES_S, AttachError, Guard, check_port, check_within
from decima.spark.worker import Worker
from spark_sim import Action, Observation
from spark_sim.observation import read_only
from traces import Trace

LOG = logging.getLogger("decima.spark")

MODES = ("auto", "exact", "soft", "shadow")
POOLS = ("keep", "ignore")
_ATTACHMENT = "decima.spark.Attachment"
_GRACE_S = 5.0
"""time for a policy that is loaded to answer the JVM"""

Settings = TypeVar("Settings", AutoSettings, Guard)
Load = Callable[[str], Answers]
"""loads a policy of Python, given Spark's own order by the name that the simulator has"""


def attach(
    spark: Any,
    policy: str | Policy = "decima",
    *,
    parameters: Mapping[str, float] | Path | str | None = None,
    mode: str = "auto",
    guard: Guard | None = None,
    lapse_s: float = 2.0,
    hold_s: float = 0.1,
    pools: str = "keep",
    caps: Mapping[str, int] | None = None,
    priors: Trace | Path | str | None = None,
    decision_log: DecisionLogFiles | Path | str | None = None,
    metrics_port: int | None = None,
    dashboard_port: int | None = None,
    ready_s: float | None = None,
    auto: AutoSettings | None = None,
) -> Scheduler:
    """Let `policy` schedule the concurrent jobs of a session, until `detach`.

    >>> with decima.spark.attach(spark, policy="strict_fair") as scheduler:
    ...     run_jobs(spark)

    Args:
        spark: a SparkSession, or its SparkContext.
        policy: a heuristic by name, "decima" or a model file, an object that has `decide`, or
            "auto": what the simulator finds best for these jobs.
        parameters: of a heuristic, or the file in which `decima tune -o` wrote them.
        mode: "exact" (order and limits hold), "soft" (FAIR pools get shares, no exact caps),
            "shadow" (decide, log, change nothing) or "auto": exact where it can be, else soft.
        guard: how far the policy is trusted.
        lapse_s: timeout after which Spark's own order applies, if a plan keeps slots idle and the
            planner is silent.
        hold_s: a new stage waits for its first decision at most so long.
        pools: "keep" (FAIR pools keep a weight or minShare of their own) or "ignore".
        caps: the most slots of each job, pool and so on, by the plugin's names without the prefix:
            `{"maxSlotsPerJob": 8, "maxSlots.pool.small": 2}`. They hold until `detach`, also once
            the policy failed, and need mode "exact". `{"maxJobs": 4}` bounds the jobs at once,
            until the policy failed.
        priors: earlier runs of the same queries, for durations before anything is measured, and
            beside the first tasks: a trace, or its file.
        decision_log: a file for one JSON line a plan, bounded in size.
        metrics_port: serve Prometheus metrics there, to this machine only.
        dashboard_port: serve a page to look at there, likewise.
        ready_s: wait at most so long for a policy in Python; None: strict fair decides meanwhile.
        auto: how "auto" chooses.

    Raises:
        AttachError: (one line) this session cannot be scheduled, or is already, or no such model.
        PolicyError, ConfigError: there is no such policy or parameter.
    """
    for label, value, choices in (("mode", mode, MODES), ("pools", pools, POOLS)):
        if value not in choices:
            raise AttachError(f"{label} {value!r}: there are {', '.join(choices)}")
    check_within("lapse_s", lapse_s, *TIMES_S["lapse"])
    check_within("hold_s", hold_s, *TIMES_S["hold"])
    if ready_s is not None:
        check_within("ready_s", ready_s, *READY_S)
    check_port("metrics", metrics_port)
    check_port("dashboard", dashboard_port)
    bounds = _settings_of(guard, Guard, "guard")
    trace = load_priors(priors)
    values = read_parameters(policy, parameters)
    acts = mode != "shadow"
    name, load = _named(policy, values, auto, trace, acts=acts)
    context = check_session(spark)
    is_file = load is None and is_learned(name) and "." in name
    settings = {
        "policy": str(model_path(name).absolute()) if is_file else name,
        "decision": _ms(bounds.decision_s),
        "starve": _ms(bounds.starve_s),
        "idle": _ms(bounds.idle_s),
        "failures": str(bounds.failures),
        "lapse": _ms(lapse_s),
        "hold": _ms(hold_s),
        "pools": pools,
    }
    if decision_log is not None:
        files = DecisionLogFiles.of(decision_log)
        settings["decisionLog"] = str(files.path.absolute())
        settings["decisionLogBytes"] = str(files.max_bytes)
        settings["decisionLogFiles"] = str(files.files)
    if metrics_port is not None:
        settings["metricsPort"] = str(metrics_port)
    loading = None if load is None else _loading(name, load, context, ready_s)
    earlier = read_priors(trace)
    others = [
        None if values is None else json.dumps({"policy": name, "parameters": dict(values)}),
        not isinstance(policy, str),
        None if earlier is None else json.dumps(earlier.message()),
    ]
    attachment = _attachment(context, mode, settings, caps or {}, others)
    scheduler = Scheduler(attachment, name, loading, trained_slots_of(policy))
    # All or nothing: no thread, port or listener is left behind.
    try:
        scheduler.start()
        if ready_s is not None:
            scheduler.wait_until_ready(max(ready_s, _GRACE_S))
        if dashboard_port is not None:
            scheduler.serve_dashboard(dashboard_port)
    except BaseException:
        scheduler.detach()
        raise
    return scheduler


def _settings_of(value: Settings | None, kind: type[Settings], name: str) -> Settings:
    """Return the caller's settings, or the defaults; AttachError if they are of another kind."""
    if value is None:
        return kind()
    if not isinstance(value, kind):
        raise AttachError(f"{name} must be a {kind.__name__}, got {value!r}")
    return value


def _named(
    policy: str | Policy,
    parameters: Parameters | None,
    auto: AutoSettings | None,
    priors: Trace | None,
    *,
    acts: bool,
) -> tuple[str, Load | None]:
    """Check what the caller names; return its name and how to load it, None for the JVM's."""
    if policy != AUTO and auto is not None:
        raise AttachError(f'policy {policy!r}: auto is for policy="{AUTO}"')
    if policy == AUTO:
        settings = _settings_of(auto, AutoSettings, "auto")
        for candidate in settings.candidates:
            _check_policy(candidate, settings.parameters.get(candidate))

        def load_auto(order: str) -> Answers:
            chooser = Auto(settings, order, priors, EvaluatorProcess(), acts=acts)
            return Answers(PoliciesByName(), chooser)

        return AUTO, load_auto
    if isinstance(policy, str):
        _check_policy(policy, parameters)
        if decides_in_jvm(policy):
            return policy, None
        return policy, lambda _: Answers(PoliciesByName({policy: ready_policy(policy, parameters)}))
    guest = Guest(policy)

    def load_guest(_order: str) -> Answers:
        warm_up(Heuristic("strict_fair").on)  # the code of rounds
        return Answers(PoliciesByName({guest.name: lambda _trace: guest}))

    return guest.name, load_guest


def _check_policy(name: str, parameters: Parameters | None) -> None:
    if is_learned(name):
        read_card(model_path(name))
    else:
        Heuristic(name, parameters)


def _ms(seconds: float) -> str:
    return f"{round(1000 * seconds)}ms"


def _attachment(
    context: Any, mode: str, settings: dict[str, str], caps: Mapping[str, int], others: list[Any]
) -> Any:
    """Make the JVM's end; nothing of Spark is touched yet. Mode "auto" resolves in `settings`."""

    def java_map(content: Mapping[str, object]) -> Any:
        entries = context._jvm.java.util.HashMap()
        for name, value in content.items():
            entries.put(str(name), str(value))
        return entries

    def attachment_in(mode: str) -> Any:
        settings["mode"] = mode
        java = [context._jsc.sc(), java_map(settings), java_map(caps), *others]
        return new_object(context, _ATTACHMENT, java)

    if mode != "auto":
        return attachment_in(mode)
    try:
        return attachment_in("exact")
    except ControlError as exact:
        try:
            attachment = attachment_in("soft")
        except AttachError as soft:
            raise AttachError(
                f"exact mode is not possible ({exact}), nor is soft: {soft}"
            ) from soft
        LOG.warning("exact mode is not possible (%s): soft mode", exact)
        return attachment


def _loading(name: str, load: Load, context: Any, ready_s: float | None) -> Future[Answers]:
    """Begin to load a policy of Python; AttachError if it is not ready after `ready_s`."""
    is_fair = context._jsc.sc().getSchedulingMode().toString() == "FAIR"
    worker = Worker("decima-loading")
    loading: Future[Answers] = worker.submit(lambda: load("spark_fair" if is_fair else "fifo"))
    worker.close()  # the thread ends with the call
    if ready_s is not None:
        wait_for([loading], ready_s)
        if not loading.done():
            raise AttachError(f"{name}: not ready after {ready_s:g} s")
        error = loading.exception()
        if error is not None:
            raise AttachError(loading_fault(error)) from error
    return loading


class Guest:
    """Policy of another author, which gets read-only observations."""

    def __init__(self, policy: Policy) -> None:
        """Raise AttachError if the policy cannot decide."""
        if isinstance(policy, type):
            raise AttachError(f"policy {policy.__name__} is a class: give one that is made")
        if not callable(getattr(policy, "decide", None)):
            raise AttachError(f"policy {policy!r} has no method decide(observation)")
        self._policy = policy
        self.name = str(getattr(policy, "name", type(policy).__name__))

    def decide(self, observation: Observation) -> Action:
        return self._policy.decide(read_only(observation))
