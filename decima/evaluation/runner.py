"""Evaluation: every policy on every sequence, on any pool of workers."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from decima.custom_policies import CustomPolicy, is_custom
from decima.errors import ConfigError
from decima.evaluation.config import EvaluationConfig, draw_sequence
from decima.evaluation.report import PolicyReport, PolicyRun, Report
from decima.objectives import check_workload, is_own, objective_named
from decima.policies import networks_of, policy_named
from decima.policy import Player, Policy
from decima.policy_names import is_learned
from decima.rl.parallel.local import HERE
from decima.rl.parallel.pool import SentOnce, WorkerPool
from spark_sim import IllegalActionError, Simulator, Status, Streams
from spark_sim.metrics import measure
from spark_sim.needs import first_misfit
from spark_sim.vector import Run
from traces import Trace, load_trace
from traces.arrays import TraceArrays, to_arrays
from traces.estimates import drawn_demands, with_estimates
from traces.numbers import MS_PER_S

if TYPE_CHECKING:
    from decima.learned import Networks

LANES = 16  # sequences that a learned policy plays side by side
_ESTIMATES = 99  # stream of noisy estimates, which belong to no sequence


@dataclass(frozen=True, eq=False)
class Workload:
    """A trace, loaded and flattened once for many runs."""

    trace: Trace
    arrays: TraceArrays

    @classmethod
    def load(cls, name: str) -> Workload:
        trace = load_trace(name)
        return cls(trace, to_arrays(trace))

    @classmethod
    def of(cls, config: EvaluationConfig, trace: Trace | None = None) -> Workload:
        """Return the trace of `config`, with demands and the durations that policies observe.

        `trace` replaces the one that it names. ConfigError: no executor meets a demand.
        """
        cluster = config.cluster()
        trace = load_trace(config.trace) if trace is None else trace
        if cluster.classes is not None and config.demands == "drawn":
            largest_mb = cluster.classes[-1].memory_mb
            trace = drawn_demands(trace, largest_mb, Streams(config.seed, 0).demands())
        arrays = to_arrays(trace)
        misfit = first_misfit(arrays, cluster)
        if misfit is not None:
            job = trace.jobs[misfit.job]
            may_draw = cluster.classes is not None and config.demands != "drawn"
            way_out = ' (demands "drawn" draws it)' if may_draw else ""
            raise ConfigError(
                f"job {job.name!r:.60}, stage {job.stages[misfit.stage].name!r:.60}: "
                f"{misfit.why}{way_out}"
            )
        check_workload(config.objective, trace)
        rng = np.random.default_rng(np.random.SeedSequence(config.seed, spawn_key=(_ESTIMATES,)))
        return cls(trace, with_estimates(trace, arrays, config.estimates, rng))


EvaluationProgress = Callable[[int, int], None]
"""called with (finished runs, all runs): with 0 once all input is accepted, then after each run"""


def evaluate(
    config: EvaluationConfig,
    *,
    trace: Trace | None = None,
    own: Sequence[Callable[[], Policy]] = (),
    pool: WorkerPool = HERE,
    timelines: Collection[int] = (),
    progress: EvaluationProgress | None = None,
) -> Report:
    """Run every policy of `config`, and your own, on the same sequences.

    Args:
        config: what to compare on what.
        trace: the jobs, in place of those that `config.trace` names.
        own: factories of policies outside the registry, such as their classes, called for each
            sequence. They play in this process and come last in the report.
        pool: workers; only CPU times depend on it.
        timelines: numbers of the sequences whose tasks are recorded.
        progress: called before the first run and after each.

    Raises:
        ValueError: (one line) the trace, the arrivals or a setting breaks a rule.
    """
    if trace is not None:
        config = replace(config, trace=trace.name)
    names = _all_names(config, own)
    total = config.sequences * len(names)
    runs: dict[tuple[str, int], PolicyRun] = {}
    workload = Workload.of(config, trace)
    draw_sequence(config, workload.trace, 0)  # faults show before any task starts
    for name in config.policies:
        policy_on(workload, config, name, 0)
    objective = objective_named(config.objective)
    if progress is not None:
        progress(0, total)
    shared = _Shared(
        SentOnce(workload), SentOnce(networks_of(config.policies)), config, tuple(timelines)
    )
    for _, played in pool.map(_play_part, shared, _parts(config, timelines), label="simulating"):
        for run in played:
            if is_own(config.objective):
                objective.of(run.metrics)  # it may fail: then at the first run
            runs[run.policy, run.sequence] = run
            if progress is not None:
                progress(len(runs), total)
    for make, number in product(own, range(config.sequences)):
        run = simulate(workload, config, make(), number, timeline=number in timelines)
        runs[run.policy, number] = run
        if progress is not None:
            progress(len(runs), total)
    reports = {
        name: PolicyReport.of([runs[name, k] for k in range(config.sequences)], objective)
        for name in names
    }
    return Report(config, workload.trace, reports)


def _all_names(config: EvaluationConfig, own: Sequence[Callable[[], Policy]]) -> list[str]:
    """Names of the policies of `config`, then of the caller's; ConfigError if one is taken."""
    names = list(config.policies)
    for make in own:
        if not callable(make):
            raise ConfigError(f"own policy {make!r:.60}: give its class, or what makes a new one")
        name = getattr(make(), "name", None)
        if not isinstance(name, str):
            raise ConfigError(f"own policy {make!r:.60} makes policies without a `name`")
        if name in names:
            raise ConfigError(f"policy {name!r:.60} is there already: give yours another name")
        names.append(name)
    return names


def simulate(
    workload: Workload,
    config: EvaluationConfig,
    policy: Policy,
    number: int,
    *,
    timeline: bool = False,
) -> PolicyRun:
    """Play one policy on sequence `number`; IllegalActionError if it breaks a rule."""
    began = time.process_time()
    simulator = prepare(workload, config, number, timeline=timeline)
    policy_cpu_s = play(simulator, policy)
    spent_s = time.process_time() - began
    record = simulator.timeline() if timeline else None
    return PolicyRun(
        policy.name,
        number,
        measure(simulator.state),
        policy_cpu_s,
        max(0.0, spent_s - policy_cpu_s),
        record,
    )


def prepare(
    workload: Workload, config: EvaluationConfig, number: int, *, timeline: bool = False
) -> Simulator:
    """Sequence `number`, advanced to its first decision; ConfigError if no job arrives in time."""
    run = _arriving(workload, config, number)
    return Simulator(
        workload.arrays,
        config.cluster(),
        run.arrival_ms,
        run.job,
        duration_key=run.duration_key,
        timeline=timeline,
    )


def _arriving(workload: Workload, config: EvaluationConfig, number: int) -> Run:
    """Return the arrivals of sequence `number` and the seed of its task durations."""
    arrivals = draw_sequence(config, workload.trace, number)
    if config.time_limit_s is not None and arrivals.arrival_ms[0] >= config.time_limit_s * MS_PER_S:
        raise ConfigError(
            f"time limit {config.time_limit_s} s: no job of sequence {number} has arrived by then"
        )
    return Run(arrivals.arrival_ms, arrivals.job, Streams(config.seed, number).duration_key())


def play(simulator: Simulator, policy: Policy) -> float:
    """Run `simulator` to its end under `policy`; return the CPU seconds spent deciding."""
    if isinstance(policy, Player):
        return policy.play(simulator, timed=True)
    spent_s = 0.0
    while simulator.status is Status.DECIDE:
        began = time.process_time()
        action = policy.decide(simulator.observation())
        spent_s += time.process_time() - began
        if not isinstance(action, tuple):
            raise TypeError(f"policy {policy.name!r}: decide gave {action!r:.60}, not an Action")
        try:
            simulator.step(action)
        except IllegalActionError as error:
            raise IllegalActionError(f"policy {policy.name!r}: {error}") from error
    return spent_s


def _key(config: EvaluationConfig, number: int) -> int:
    """64 random bits of sequence `number`, for policies that draw."""
    return int(Streams(config.seed, number).actions().integers(2**63))


def policy_on(
    workload: Workload,
    config: EvaluationConfig,
    name: str,
    number: int,
    networks: Networks | None = None,
) -> Policy:
    """The policy `name` for sequence `number`; `networks` need not be read from files."""
    if is_custom(name):
        return CustomPolicy(name)
    return policy_named(
        name,
        workload.arrays,
        parameters=config.parameters.get(name),
        key=_key(config, number),
        networks=networks,
    )


class _Shared(NamedTuple):
    """Inputs that all tasks of an evaluation share."""

    workload: SentOnce[Workload]
    networks: SentOnce[Networks]
    config: EvaluationConfig
    timelines: tuple[int, ...]


_Part = tuple[str, tuple[int, ...]]
"""a task: a policy, and the numbers of its sequences"""


def _parts(config: EvaluationConfig, timelines: Collection[int]) -> dict[_Part, _Part]:
    """Split all runs into tasks: `LANES` sequences at once for a learned policy without timelines.

    The split depends on the numbers of sequences alone, so any number of workers gives the same
    figures.
    """
    parts: list[_Part] = []
    for first in range(0, config.sequences, LANES):
        numbers = tuple(range(first, min(first + LANES, config.sequences)))
        for name in config.policies:
            alone = [number for number in numbers if number in timelines or not is_learned(name)]
            parts.extend((name, (number,)) for number in alone)
            together = tuple(number for number in numbers if number not in alone)
            if together:
                parts.append((name, together))
    return {part: part for part in parts}


def _play_part(shared: _Shared, part: _Part) -> list[PolicyRun]:
    config, timelines, workload = shared.config, shared.timelines, shared.workload.value
    networks = shared.networks.value
    name, numbers = part
    if not is_learned(name) or any(number in timelines for number in numbers):
        return [
            simulate(
                workload,
                config,
                policy_on(workload, config, name, number, networks),
                number,
                timeline=number in timelines,
            )
            for number in numbers
        ]
    # The agent takes a second to load, and heuristics do not need it.
    from decima.learned import play_in_lockstep

    played = play_in_lockstep(
        name,
        workload.arrays,
        config.cluster(),
        [_arriving(workload, config, number) for number in numbers],
        [_key(config, number) for number in numbers],
        networks,
    )
    policy_cpu_s, environment_cpu_s = (
        spent_s / len(numbers) for spent_s in (played.policy_cpu_s, played.environment_cpu_s)
    )
    return [
        PolicyRun(name, number, measure(state), policy_cpu_s, environment_cpu_s, None)
        for number, state in zip(numbers, played.states, strict=True)
    ]
