"""`attach`: check a session, choose what acts on it, and let a policy decide for it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from decima.policy import Policy
from decima.policy_names import SEARCH_SUFFIX, is_learned, looks_ahead, model_path
from decima.registry import Heuristic, Parameters
from decima.spark.auto import AUTO, Auto, AutoSettings
from decima.spark.decision_log import log_opener
from decima.spark.errors import AttachError, PolicyFaultError
from decima.spark.evaluator_process import EvaluatorProcess
from decima.spark.inputs import Ports, Waits, given, load_priors, read_parameters, read_priors
from decima.spark.jobs import LiveJobs
from decima.spark.jvm import Jvm, check_session
from decima.spark.loading import LoadingPolicy, PolicyFor
from decima.spark.log_files import DecisionLogFiles
from decima.spark.model_card import read_card, trained_slots
from decima.spark.planning import Guard, Planner
from decima.spark.scheduler import Control, Scheduler
from decima.spark.soft import SoftControl
from decima.spark.switching import SparkOrder, Switch
from spark_sim import Action, Observation
from spark_sim.views import read_only
from traces import Trace

LOG = logging.getLogger("decima.spark")

MODES = ("auto", "exact", "soft", "shadow")


def attach(
    spark: Any,
    policy: str | Policy = "decima",
    *,
    parameters: Mapping[str, float] | Path | str | None = None,
    mode: str = "auto",
    guard: Guard | None = None,
    lapse_s: float = 2.0,
    hold_s: float = 0.1,
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
        policy: a heuristic by name, "decima" or a model file (followed by ":search": looks ahead),
            an object that has `decide`, or "auto": what the simulator finds best for these jobs.
        parameters: of a heuristic, or the file in which `decima tune -o` wrote them.
        mode: "exact" (order and limits hold), "soft" (FAIR pools get shares, no exact caps),
            "shadow" (decide, log, change nothing) or "auto": exact where it can be, else soft.
        guard: how far the policy is trusted.
        lapse_s: timeout after which Spark's own order applies, if a plan keeps slots idle and no
            report comes.
        hold_s: a new stage waits for its first decision at most so long.
        priors: earlier runs of the same queries, for durations before anything is measured, and
            beside the first tasks: a trace, or its file.
        decision_log: a file for one JSON line a plan, bounded in size.
        metrics_port: serve Prometheus metrics there, to this machine only.
        dashboard_port: serve a page to look at there, likewise.
        ready_s: wait at most so long for a learned policy; None: strict fair decides meanwhile.
        auto: how "auto" chooses.

    Raises:
        AttachError: (one line) this session cannot be scheduled, or is already, or no such model.
        PolicyError, ConfigError: there is no such policy or parameter.
    """
    if mode not in MODES:
        raise AttachError(f"mode {mode!r}: there are {', '.join(MODES)}")
    waits, ports = Waits(lapse_s, hold_s, ready_s), Ports(metrics_port, dashboard_port)
    chosen_guard, trace = given(guard, Guard, "guard"), load_priors(priors)
    values = read_parameters(policy, parameters)
    chosen, name = policy_for(policy, values)
    context = check_session(spark)
    control, mode = _control(context, mode, waits)
    log = log_opener(decision_log, mode, name, values, _ran(context, mode, name))
    planner = Planner(chosen, chosen_guard)
    stands_back = None if policy != AUTO or mode == "shadow" else _stands_back(control)
    switch = auto_switch(policy, auto, _order(context), trace, planner, stands_back)
    live, slots = LiveJobs(read_priors(trace)), trained_slots_of(policy)
    scheduler = Scheduler(control, planner, live, mode=mode, policy=name, open_log=log,
                          trained_slots=slots, switch=switch)  # fmt: skip
    return _started(scheduler, planner, policy, ready_s, ports)


def _started(
    scheduler: Scheduler,
    planner: Planner,
    policy: str | Policy,
    ready_s: float | None,
    ports: Ports,
) -> Scheduler:
    """The scheduler, deciding; all or nothing: no thread, port or listener is left behind."""
    try:
        prepare(planner, policy, ready_s)
        ports.open(scheduler)
        scheduler.start()
    except BaseException:
        scheduler.detach()
        raise
    return scheduler


def _control(context: Any, mode: str, waits: Waits) -> tuple[Control, str]:
    """Choose the control of this session, and the mode that "auto" resolves to."""
    if mode == "soft":
        return SoftControl(context), mode
    try:
        exact = Jvm(
            context,
            lapse_ms=round(1000 * waits.lapse_s),
            hold_ms=round(1000 * waits.hold_s),
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


def _ran(context: Any, mode: str, policy: str) -> str:
    """Name of the policy or, in shadow mode, of Spark's order in the simulator."""
    return policy if mode != "shadow" else _order(context)


def _order(context: Any) -> str:
    """Spark's own order, by the name that the simulator has."""
    return spark_order(is_fair=context._jsc.sc().getSchedulingMode().toString() == "FAIR")


def spark_order(*, is_fair: bool) -> str:
    """Name of Spark's own order in the simulator."""
    return "spark_fair" if is_fair else "fifo"


def _stands_back(control: Control) -> SparkOrder:
    """The control, which policy "auto" needs to leave order to Spark.

    Raises:
        AttachError: it cannot.
    """
    if isinstance(control, SoftControl):
        raise AttachError('policy "auto" needs mode "exact" or "shadow", not "soft"')
    assert isinstance(control, Jvm)  # noqa: S101 - there are these two
    return control


def auto_switch(
    policy: str | Policy,
    settings: AutoSettings | None,
    order: str,
    priors: Trace | None,
    planner: Planner,
    control: SparkOrder | None,
) -> Switch | None:
    """Build the switch that applies the choices of policy "auto"; None for other policies.

    Args:
        policy: as for `attach`.
        settings: of the choice; None takes the defaults of `AutoSettings`.
        order: Spark's own (`spark_order`).
        priors: earlier runs, to choose by before anything is observed.
        planner: makes the plans.
        control: None where nothing of Spark is to change.

    Raises:
        AttachError, PolicyError: a candidate cannot be used, or settings are of no use.
    """
    if policy != AUTO:
        if settings is not None:
            raise AttachError(f'policy {policy!r}: auto is for policy="{AUTO}"')
        return None
    chosen = given(settings, AutoSettings, "auto")

    def candidate(name: str) -> PolicyFor:
        return policy_for(name, chosen.parameters.get(name))[0]

    for name in chosen.candidates:
        if looks_ahead(name):
            raise AttachError(
                f"auto: {name!r} looks ahead otherwise than in the simulation that would compare "
                f"it: take {name.removesuffix(SEARCH_SUFFIX)!r}"
            )
        candidate(name)
    own = Auto(chosen, order, priors, EvaluatorProcess(), acts=control is not None)
    return Switch(own, planner, control, candidate)


def policy_for(policy: str | Policy, parameters: Parameters | None = None) -> tuple[PolicyFor, str]:
    """Return the factory of the policy for the current jobs, and its name.

    Raises:
        AttachError, PolicyError: there is no such policy or parameter.
    """
    if policy == AUTO:
        return Heuristic("strict_fair").on, AUTO
    if not isinstance(policy, str):
        if isinstance(policy, type):
            raise AttachError(f"policy {policy.__name__} is a class: give one that is made")
        if not callable(getattr(policy, "decide", None)):
            raise AttachError(f"policy {policy!r} has no method decide(observation)")
        own = Guest(policy)
        return (lambda _trace: own), own.name
    if is_learned(policy):
        read_card(model_path(policy))
        return LoadingPolicy(policy), policy
    heuristic = Heuristic(policy, parameters)
    return heuristic.on, policy


class Guest:
    """Policy of another author, which gets read-only observations."""

    def __init__(self, policy: Policy) -> None:
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


def prepare(planner: Planner, policy: str | Policy, ready_s: float | None) -> None:
    """Start what takes a while, and wait for a learned policy at most `ready_s`.

    Raises:
        AttachError: it is not ready by then.
    """
    loading = planner.loading
    is_heuristic = isinstance(policy, str) and loading is None and policy != AUTO
    # Before the policy is loaded: numba compiles in one thread at a time.
    planner.warm_up(Heuristic(str(policy)).on if is_heuristic else None)
    if loading is not None:
        loading.start()
        if ready_s is not None:
            _wait_for(loading, ready_s)


def _wait_for(loading: LoadingPolicy, ready_s: float) -> None:
    try:
        is_ready = loading.is_ready(ready_s)
    except PolicyFaultError as error:
        raise AttachError(str(error)) from error
    if not is_ready:
        raise AttachError(f"{loading.name}: not ready after {ready_s:g} s")
