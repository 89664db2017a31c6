"""Inputs of `attach` besides the policy: bounds on it, parameters, earlier runs."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from decima.policy import Policy
from decima.policy_names import is_learned
from decima.registry import Heuristic, Parameters
from decima.spark.auto import AutoSettings
from decima.spark.bounds import TIMES_S, check_count, check_within
from decima.spark.errors import AttachError
from decima.spark.priors import Priors
from decima.training.tuning import read_tuned
from traces import Trace, TraceError, load_trace
from traces.files.errors import FileError
from traces.spark_log.names import shared_words

LOG = logging.getLogger("decima.spark")


@dataclass(frozen=True)
class Guard:
    """Bounds on a policy's time and failures.

    Raises:
        AttachError: a bound makes no sense.
    """

    decision_s: float = 0.5
    """a round of decisions of a policy in Python may take so long"""
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
        for name in ("decision", "starve", "idle"):
            check_within(f"guard: {name}_s", getattr(self, f"{name}_s"), *TIMES_S[name])
        check_count("guard: failures", self.failures, 1)


Settings = TypeVar("Settings", AutoSettings, Guard)


def read_parameters(
    policy: str | Policy, parameters: Mapping[str, float] | Path | str | None
) -> Parameters | None:
    """The parameters of a heuristic: themselves, or in a file of `decima tune -o`.

    Raises:
        AttachError: the policy is no heuristic, or the file is another policy's.
        PolicyError, ConfigError: there is no such policy or parameter, or no such file.
    """
    if parameters is None:
        return None
    if not isinstance(policy, str) or is_learned(policy):
        raise AttachError(f"policy {policy!r} is no heuristic: it takes no parameters")
    if isinstance(parameters, Mapping):
        found: Parameters = dict(parameters)
    elif not isinstance(parameters, Path | str):
        raise AttachError(
            f"parameters are {parameters!r:.60}: numbers by name are needed, or a file of "
            "`decima tune -o`"
        )
    else:
        owner, found = read_tuned(Path(parameters))
        if owner != policy:
            raise AttachError(f"{parameters}: parameters of {owner!r}, not of {policy!r}")
    return Heuristic(policy, found).parameters


def load_priors(priors: Trace | Path | str | None) -> Trace | None:
    """Earlier runs: themselves, or of a trace file or built-in trace.

    Raises:
        AttachError: they are neither, or cannot be read.
    """
    if priors is None or isinstance(priors, Trace):
        return priors
    if not isinstance(priors, Path | str):
        raise AttachError(f"priors must be a Trace or the path of a trace file, got {priors!r}")
    try:
        return load_trace(priors)
    except (FileError, TraceError) as error:
        raise AttachError(f"priors: {error}") from error


def read_priors(trace: Trace | None) -> Priors | None:
    """Read the trace of earlier runs; the log reports how much of it can be matched."""
    if trace is None:
        return None
    priors = Priors(trace)
    words = "priors of %s: %d of %d jobs have a name that can come again (%d queries)"
    arguments = (words, trace.name, priors.recurring, priors.jobs, priors.queries)
    if priors.recurring < priors.jobs:
        LOG.warning(words + "; the others are known by number of tasks alone", *arguments[1:])
    else:
        LOG.info(*arguments)
    shared = shared_words(trace)
    if shared is not None:
        LOG.warning("priors of %s: %s", trace.name, shared)
    return priors


def given(value: Settings | None, kind: type[Settings], name: str) -> Settings:
    """Return the caller's settings, or the defaults.

    Raises:
        AttachError: it is of another kind.
    """
    if value is None:
        return kind()
    if not isinstance(value, kind):
        raise AttachError(f"{name} must be a {kind.__name__}, got {value!r}")
    return value
