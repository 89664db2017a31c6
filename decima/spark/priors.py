"""`Priors`: how long tasks took in earlier runs of the same query, from a trace of them."""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from decima.spark.settings import AttachError
from traces import Trace, TraceError, load_trace
from traces.files.errors import FileError
from traces.spark_log.names import Query, query_in, shared_names, shared_words

LOG = logging.getLogger("decima.spark")

AGREE = 2.0
"""durations of different runs speak for one query if the longest is at most so many times the
shortest"""


def load_priors(priors: Trace | Path | str | None) -> Trace | None:
    """The trace of earlier runs: itself, a file's or a built-in one, else AttachError."""
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
    matched = "priors of %s: %d of %d jobs have a name that can come again (%d queries)"
    counts = trace.name, priors.recurring, priors.jobs, priors.queries
    if priors.recurring < priors.jobs:
        LOG.warning(matched + "; the others are known by number of tasks alone", *counts)
    else:
        LOG.info(matched, *counts)
    shared = shared_words(trace)
    if shared is not None:
        LOG.warning("priors of %s: %s", trace.name, shared)
    return priors


class Priors:
    """Durations by query and shape of the stage; queries as in `traces.spark_log.names`."""

    def __init__(self, trace: Trace) -> None:
        self._by_query: dict[Query, dict[int, list[list[float]]]] = {}
        self._shapes: defaultdict[int, list[float]] = defaultdict(list)
        self.jobs = len(trace.jobs)
        self.recurring = 0
        """jobs of the trace whose name can come again"""
        self._shared = shared_names(trace)
        for job in trace.jobs:
            query = query_in(trace, job)
            by_size = {} if query is None else self._by_query.setdefault(query, {})
            self.recurring += query is not None
            earlier: Counter[int] = Counter()
            for stage in job.stages:
                self._shapes[stage.num_tasks].append(stage.mean_ms)
                places = by_size.setdefault(stage.num_tasks, [])
                if earlier[stage.num_tasks] == len(places):
                    places.append([])
                places[earlier[stage.num_tasks]].append(stage.mean_ms)
                earlier[stage.num_tasks] += 1

    @property
    def queries(self) -> int:
        return len(self._by_query)

    def message(self) -> dict[str, Any]:
        """Return the durations in the form that the JVM reads (`decima.policy.Priors`).

        ``queries``: by name and number of tasks, the mean of each place, which is the number of
        earlier stages of the job with as many tasks. ``shapes``: the mean by number of tasks alone.

        A user's name is trusted: its durations are the mean over its runs. A place in a program may
        stand for many queries, as may a name whose jobs differ, and a bare number of tasks for
        anything: these are None unless all runs agree.
        """
        return {
            "queries": {
                query.name: {
                    str(num_tasks): [
                        _mean_ms(runs, must_agree=not query.is_given or query in self._shared)
                        for runs in places
                    ]
                    for num_tasks, places in by_size.items()
                }
                for query, by_size in self._by_query.items()
            },
            "shapes": {
                str(num_tasks): _mean_ms(runs_ms, must_agree=True)
                for num_tasks, runs_ms in self._shapes.items()
            },
        }


def _mean_ms(runs_ms: Sequence[float], *, must_agree: bool) -> float | None:
    """Mean over runs; None where they must agree and do not."""
    if must_agree and max(runs_ms) > AGREE * min(runs_ms):
        return None
    return float(np.mean(runs_ms))
