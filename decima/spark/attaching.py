"""`attach`: check a session, and let a policy decide for it, by the planner in its JVM."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from pathlib import Path
from typing import Any, NamedTuple

from decima.policy import Policy
from decima.policy_names import is_learned, model_path
from decima.registry import Heuristic, Parameters
from decima.spark.answering import Answers, PoliciesByName
from decima.spark.auto import AUTO, Auto, AutoSettings
from decima.spark.decision_log import DecisionLogFiles
from decima.spark.errors import AttachError
from decima.spark.evaluator_process import EvaluatorProcess
from decima.spark.inputs import (
    Guard,
    Ports,
    Waits,
    given,
    load_priors,
    read_parameters,
    read_priors,
)
from decima.spark.jvm import ControlError, check_session, decides_in_jvm, new_object
from decima.spark.loading import ready_policy, warm_up
from decima.spark.model_card import read_card, trained_slots
from decima.spark.scheduler import Scheduler, loading_fault
from decima.spark.worker import Worker
from spark_sim import Action, Observation
from spark_sim.views import read_only
from traces import Trace

LOG = logging.getLogger("decima.spark")

MODES = ("auto", "exact", "soft", "shadow")
POOLS = ("keep", "ignore")
_ATTACHMENT = "decima.spark.Attachment"
_GRACE_S = 5.0
"""time for a policy that is loaded to answer the JVM"""


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
            the policy failed, and need mode "exact".
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
    for label, value, known in (("mode", mode, MODES), ("pools", pools, POOLS)):
        if value not in known:
            raise AttachError(f"{label} {value!r}: there are {', '.join(known)}")
    waits, ports = Waits(lapse_s, hold_s, ready_s), Ports(metrics_port, dashboard_port)
    chosen_guard, trace = given(guard, Guard, "guard"), load_priors(priors)
    values = read_parameters(policy, parameters)
    chosen = _chosen(policy, values, auto)
    context = check_session(spark)
    settings = _settings(chosen, waits, chosen_guard, decision_log, ports) | {"pools": pools}
    loading = _loading(chosen, context, trace, mode, waits.ready_s)
    others = [_content(chosen.name, values), not isinstance(policy, str), _earlier(trace)]
    attachment = _attachment(context, mode, settings, caps or {}, others)
    scheduler = Scheduler(attachment, chosen.name, loading, trained_slots_of(policy))
    return _started(scheduler, waits, ports)


def _started(scheduler: Scheduler, waits: Waits, ports: Ports) -> Scheduler:
    """The scheduler, deciding; all or nothing: no thread, port or listener is left behind."""
    try:
        scheduler.start()
        if waits.ready_s is not None:
            scheduler.wait_until_ready(max(waits.ready_s, _GRACE_S))
        if ports.dashboard is not None:
            scheduler.serve_dashboard(ports.dashboard)
    except BaseException:
        scheduler.detach()
        raise
    return scheduler


def _earlier(trace: Trace | None) -> str | None:
    """Durations of earlier runs, as JSON."""
    priors = read_priors(trace)
    return None if priors is None else json.dumps(priors.message())


class Session(NamedTuple):
    """Facts of a session that policy "auto" needs."""

    order: str
    """Spark's own, by the name that the simulator has"""
    priors: Trace | None
    acts: bool
    """False in mode shadow: whatever is chosen, Spark's order runs"""


class Chosen(NamedTuple):
    """A policy, and how Python answers for it."""

    name: str
    loads: Callable[[Session], Answers] | None
    """None: it decides in the JVM"""


def _chosen(
    policy: str | Policy, parameters: Parameters | None, auto: AutoSettings | None
) -> Chosen:
    """Check what the caller names.

    Raises:
        AttachError, PolicyError: there is no such policy, parameter or candidate.
    """
    if policy != AUTO and auto is not None:
        raise AttachError(f'policy {policy!r}: auto is for policy="{AUTO}"')
    if policy == AUTO:
        settings = given(auto, AutoSettings, "auto")
        for name in settings.candidates:
            _check_named(name, settings.parameters.get(name))
        return Chosen(AUTO, lambda session: Answers(PoliciesByName(), _auto(settings, session)))
    if not isinstance(policy, str):
        guest = Guest(policy)
        return Chosen(guest.name, lambda _: _of_guest(guest))
    name = policy
    _check_named(name, parameters)
    if decides_in_jvm(name):
        return Chosen(name, None)
    return Chosen(name, lambda _: Answers(PoliciesByName({name: ready_policy(name, parameters)})))


def _of_guest(guest: Guest) -> Answers:
    """Answers of a policy of another author, once the code of rounds is there."""
    warm_up(Heuristic("strict_fair").on)
    return Answers(PoliciesByName({guest.name: lambda _trace: guest}))


def _check_named(name: str, parameters: Parameters | None) -> None:
    if is_learned(name):
        read_card(model_path(name))
    else:
        Heuristic(name, parameters)


def _auto(settings: AutoSettings, session: Session) -> Auto:
    order, priors, acts = session
    return Auto(settings, order, priors, EvaluatorProcess(), acts=acts)


def _content(name: str, parameters: Parameters | None) -> str | None:
    """The parameters as a file of `decima tune -o` has them."""
    if parameters is None:
        return None
    return json.dumps({"policy": name, "parameters": dict(parameters)})


def _settings(
    chosen: Chosen,
    waits: Waits,
    guard: Guard,
    decision_log: DecisionLogFiles | Path | str | None,
    ports: Ports,
) -> dict[str, str]:
    """The settings of the plugin (`Settings.java`)."""
    is_file = chosen.loads is None and is_learned(chosen.name) and "." in chosen.name
    found = {
        "policy": str(model_path(chosen.name).absolute()) if is_file else chosen.name,
        "lapse": _ms(waits.lapse_s),
        "hold": _ms(waits.hold_s),
        "decision": _ms(guard.decision_s),
        "starve": _ms(guard.starve_s),
        "idle": _ms(guard.idle_s),
        "failures": str(guard.failures),
    }
    if ports.metrics is not None:
        found["metricsPort"] = str(ports.metrics)
    if decision_log is not None:
        files = DecisionLogFiles.of(decision_log)
        found["decisionLog"] = str(files.path.absolute())
        found["decisionLogBytes"] = str(files.max_bytes)
        found["decisionLogFiles"] = str(files.files)
    return found


def _ms(seconds: float) -> str:
    return f"{round(1000 * seconds)}ms"


def _attachment(
    context: Any, mode: str, settings: dict[str, str], caps: Mapping[str, int], others: list[Any]
) -> Any:
    """Make the JVM's end; nothing of Spark is touched yet. Mode "auto" resolves in `settings`."""

    def java_map(content: Mapping[str, object]) -> Any:
        made = context._jvm.java.util.HashMap()
        for name, value in content.items():
            made.put(str(name), str(value))
        return made

    def made(mode: str) -> Any:
        settings["mode"] = mode
        java = [context._jsc.sc(), java_map(settings), java_map(caps), *others]
        return new_object(context, _ATTACHMENT, java)

    if mode != "auto":
        return made(mode)
    try:
        return made("exact")
    except ControlError as exact:
        try:
            found = made("soft")
        except AttachError as soft:
            raise AttachError(
                f"exact mode is not possible ({exact}), nor is soft: {soft}"
            ) from soft
        LOG.warning("exact mode is not possible (%s): soft mode", exact)
        return found


def _order(context: Any) -> str:
    """Spark's own order, by the name that the simulator has."""
    is_fair = context._jsc.sc().getSchedulingMode().toString() == "FAIR"
    return "spark_fair" if is_fair else "fifo"


def _loading(
    chosen: Chosen, context: Any, priors: Trace | None, mode: str, ready_s: float | None
) -> Future[Answers] | None:
    """Begin to load a policy of Python, and wait for it at most `ready_s`; None if it needs none.

    Raises:
        AttachError: it is not ready by then, or cannot be used.
    """
    if chosen.loads is None:
        return None
    loads, session = chosen.loads, Session(_order(context), priors, mode != "shadow")
    worker = Worker("decima-loading")
    loading: Future[Answers] = worker.submit(lambda: loads(session))
    worker.close()  # the thread ends with the call
    if ready_s is not None:
        wait_for([loading], ready_s)
        if not loading.done():
            raise AttachError(f"{chosen.name}: not ready after {ready_s:g} s")
        error = loading.exception()
        if error is not None:
            raise AttachError(loading_fault(error)) from error
    return loading


class Guest:
    """Policy of another author, which gets read-only observations."""

    def __init__(self, policy: Policy) -> None:
        """Raises:
        AttachError: it cannot decide.
        """
        if isinstance(policy, type):
            raise AttachError(f"policy {policy.__name__} is a class: give one that is made")
        if not callable(getattr(policy, "decide", None)):
            raise AttachError(f"policy {policy!r} has no method decide(observation)")
        self._policy = policy
        self.name = str(getattr(policy, "name", type(policy).__name__))

    def decide(self, observation: Observation) -> Action:
        """The policy's answer (`decima.policy.Policy`)."""
        return self._policy.decide(read_only(observation))


def trained_slots_of(policy: str | Policy) -> tuple[int, int] | None:
    """Slots that a model was trained for; None for other policies, and models without a card."""
    if not isinstance(policy, str) or not is_learned(policy):
        return None
    return trained_slots(read_card(model_path(policy)))
