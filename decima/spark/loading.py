"""Policies before their first plan: their files and parameters, what is loaded and compiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from decima.policy import Policy
from decima.policy_names import is_learned, model_path
from decima.registry import Heuristic, Parameters
from decima.spark.settings import AttachError
from decima.spark.tables import LiveTables
from decima.training.tuning import read_tuned
from traces.arrays import TraceArrays
from traces.files.numbers import is_count
from traces.files.reading import parse_json

PolicyFor = Callable[[TraceArrays], Policy]
"""factory of the policy, from the graphs of the jobs in observations"""
LOADING_S = 300.0
"""time in which every policy is ready: its kernels may have to be compiled"""
_WEIGHT_OF_NEW = 0.1


def ready_policy(name: str, parameters: Parameters | None = None) -> PolicyFor:
    """The factory of a policy, with all that it needs compiled; else ModelError or PolicyError."""

    def made() -> PolicyFor:
        return learned(name) if is_learned(name) else Heuristic(name, parameters).on

    warm_up(made())
    return made()  # what decides must not remember the jobs of the warm-up


def learned(name: str) -> PolicyFor:
    """A factory of the learned policy `name`, from its file of now, else ModelError."""
    # Not before: numba takes a second to load.
    from decima.agent.model import load_model
    from decima.agent.policy import LearnedPolicy
    from decima.agent.scales import Scales

    weights = load_model(model_path(name)).weights
    typical: Scales | None = None

    def policy_for(graphs: TraceArrays) -> Policy:
        nonlocal typical
        scales = Scales.of(graphs)
        if typical is not None:
            # What is typical is learned slowly: a single large job must not make itself usual.
            pairs = zip(typical, scales, strict=True)
            scales = Scales(
                *((1 - _WEIGHT_OF_NEW) * old + _WEIGHT_OF_NEW * new for old, new in pairs)
            )
        typical = scales
        return LearnedPolicy(weights, graphs, scales=scales, name=name)

    return policy_for


def warm_up(policy_for: PolicyFor) -> None:
    """Decide twice for two jobs that do not exist, so that the first real plan need not wait for
    compilers and look-ups.

    Args:
        policy_for: makes a policy that is thrown away: it must not remember these jobs.
    """
    for _ in range(2):
        tables = LiveTables()
        round_ = tables.fill(TWO_JOBS)
        assert tables.trace is not None  # noqa: S101 - the tables are filled
        policy = policy_for(tables.trace)
        while round_.is_open:
            round_.assign(policy.decide(round_.observation()))


TWO_JOBS: dict[str, Any] = {
    "slots": 4, "time_ms": 1.0, "last_arrival_ms": 0.0, "mean_gap_ms": 0.0, "typical_ms": 2_828.4,
    "inflation": 0.04, "arrival_ms": [0.0, 0.0], "work_ms": [4_000.0, 2_000.0],
    "remaining_ms": [3_000.0, 2_000.0], "first_stage": [0, 2, 3], "first_child": [0, 1, 1, 1],
    "children": [1], "num_tasks": [2, 2, 2], "launched": [1, 0, 0], "finished": [0, 0, 0],
    "runnable": [True, False, True], "mean_ms": [1_000.0] * 3,
    "critical_path_ms": [2_000.0, 1_000.0, 1_000.0], "given": [],
}  # fmt: skip
"""a round of two jobs that do not exist: a stage after another, and one alone"""


def read_parameters(
    policy: str | Policy, parameters: Mapping[str, float] | Path | str | None
) -> Parameters | None:
    """A heuristic's parameters: themselves, or in a file of `decima tune -o`; else an error."""
    if parameters is None:
        return None
    if not isinstance(policy, str) or is_learned(policy):
        raise AttachError(f"policy {policy!r} is no heuristic: it takes no parameters")
    if isinstance(parameters, Mapping):
        return Heuristic(policy, dict(parameters)).parameters
    if not isinstance(parameters, Path | str):
        raise AttachError(
            f"parameters are {parameters!r:.60}: numbers by name are needed, or a file of "
            "`decima tune -o`"
        )
    owner, tuned = read_tuned(Path(parameters))
    if owner != policy:
        raise AttachError(f"{parameters}: parameters of {owner!r}, not of {policy!r}")
    return Heuristic(policy, tuned).parameters


def read_card(path: Path) -> Mapping[str, Any]:
    """The card in a model file's header, else AttachError. Loading checks the rest."""
    try:
        with safe_open(path, framework="numpy") as file:
            header = parse_json((file.metadata() or {}).get("json", "{}"), str(path))
    except FileNotFoundError as error:
        raise AttachError(f"{path}: no such file") from error
    except (OSError, SafetensorError, ValueError) as error:
        raise AttachError(f"{path}: not a model file, or damaged: {error}") from error
    card = header.get("card") if isinstance(header, dict) else None
    if not isinstance(card, dict) or "network" not in header:
        raise AttachError(f"{path}: not a model of `decima train`")
    return card


def trained_slots(card: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return the least and most slots that a model was trained for; None if its card lacks them."""
    workload: Any = card
    for key in ("config", "workload"):
        workload = workload.get(key) if isinstance(workload, dict) else None
    if not isinstance(workload, dict):
        return None
    settings = workload.get("settings") or [workload]
    if not isinstance(settings, list):
        return None
    sizes = [row.get("executors") for row in settings if isinstance(row, dict)]
    counts = [size for size in sizes if is_count(size)]
    return (min(counts), max(counts)) if counts else None


def trained_slots_of(policy: str | Policy) -> tuple[int, int] | None:
    """Slots that a model was trained for; None for other policies, and models without a card."""
    if not isinstance(policy, str) or not is_learned(policy):
        return None
    return trained_slots(read_card(model_path(policy)))
