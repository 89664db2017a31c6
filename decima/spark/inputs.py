"""What a caller of `attach` may hand over besides the policy: parameters, earlier runs, ports."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from decima.policies import Heuristic, Parameters, is_learned
from decima.policy import Policy
from decima.spark.errors import AttachError
from decima.spark.priors import Priors
from decima.spark.scheduler import Scheduler
from decima.tuning import read_tuned
from traces import Trace

LOG = logging.getLogger("decima.spark")


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
    else:
        owner, found = read_tuned(Path(parameters))
        if owner != policy:
            raise AttachError(f"{parameters}: parameters of {owner!r}, not of {policy!r}")
    return Heuristic(policy, found).parameters


def read_priors(trace: Trace | None) -> Priors | None:
    """What the trace says of earlier runs; the log tells how much of it can be found again."""
    if trace is None:
        return None
    priors = Priors(trace)
    words = "priors of %s: %d of %d jobs have a name that can come again (%d queries)"
    told = (words, trace.name, priors.recurring, priors.jobs, priors.queries)
    if priors.recurring < priors.jobs:
        LOG.warning(words + "; the others are known by number of tasks alone", *told[1:])
    else:
        LOG.info(*told)
    return priors


@dataclass(frozen=True)
class Ports:
    """Where a scheduler can be looked at; 0 is any port that is free, None no port.

    Raises:
        AttachError: what is given is no port.
    """

    metrics: int | None
    dashboard: int | None

    def __post_init__(self) -> None:
        for name, port in asdict(self).items():
            is_port = isinstance(port, int) and not isinstance(port, bool) and 0 <= port <= 65_535
            if port is not None and not is_port:
                raise AttachError(f"{name} port {port!r}: ports are whole numbers from 0 to 65535")

    def open(self, scheduler: Scheduler) -> None:
        """Serve there, until the scheduler is detached.

        Raises:
            AttachError: a port is taken.
        """
        if self.metrics is not None:
            scheduler.serve_metrics(self.metrics)
        if self.dashboard is not None:
            scheduler.serve_dashboard(self.dashboard)
