"""`Trace`: jobs with distinct names, as objects or as columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from traces.columns import Columns, StoredJobs, check, columns_of
from traces.errors import TraceError
from traces.files.names import some, suggestion
from traces.model import Job, check_name


@dataclass(frozen=True, repr=False)
class Trace:
    """Jobs with distinct names, and where they came from."""

    name: str
    jobs: Sequence[Job]
    """a tuple, or `StoredJobs`"""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """JSON-like facts about the origin (source, settings, counts of what was skipped)"""

    def __post_init__(self) -> None:
        check_name("trace", self.name)
        if not self.jobs:
            raise TraceError(f"trace {self.name!r} holds no job")
        columns = self.jobs.columns if isinstance(self.jobs, StoredJobs) else None
        if columns is not None and np.bincount(columns.job_name.index).max() <= 1:
            return  # quicker than to make all names
        for name, count in Counter(self.job_names).items():
            if count > 1:
                raise TraceError(f"trace {self.name!r}: job name {name!r} is used twice")

    def __repr__(self) -> str:
        return f"<Trace {self.name!r}: {len(self.jobs):,} jobs>"

    @classmethod
    def of_columns(cls, name: str, columns: Columns, metadata: Mapping[str, Any]) -> Trace:
        """Return the trace of these columns; TraceError if they break a rule of `traces.model`."""
        check(columns)
        return cls(name, StoredJobs(columns), metadata)

    @cached_property
    def columns(self) -> Columns:
        """The jobs as columns."""
        return columns_of(self.jobs)

    @cached_property
    def job_names(self) -> list[str]:
        """Names of the jobs, in their order."""
        if isinstance(self.jobs, StoredJobs):
            return self.columns.job_name.listed()
        return [job.name for job in self.jobs]

    @cached_property
    def index_of(self) -> Mapping[str, int]:
        """Position of each job by name."""
        return {name: index for index, name in enumerate(self.job_names)}

    def to_arrow(self) -> pa.Table:
        """A row for each stage, with the names of its parents; `.to_pandas()` makes a DataFrame."""
        schema = pa.schema(
            {
                "job": pa.string(),
                "arrival_ms": pa.float64(),
                "stage": pa.string(),
                "num_tasks": pa.int64(),
                "mean_ms": pa.float64(),
                "cpu": pa.float64(),
                "memory_mb": pa.float64(),
                "parents": pa.list_(pa.string()),
            }
        )
        rows = [
            {
                "job": job.name,
                "arrival_ms": job.arrival_ms,
                "stage": stage.name,
                "num_tasks": stage.num_tasks,
                "mean_ms": stage.mean_ms,
                "cpu": stage.cpu,
                "memory_mb": stage.memory_mb,
                "parents": [job.stages[parent].name for parent in stage.parents],
            }
            for job in self.jobs
            for stage in job.stages
        ]
        return pa.Table.from_pylist(rows, schema)

    def job(self, name: str) -> Job:
        """The job called `name`, or TraceError."""
        if name not in self.index_of:
            near, known = suggestion(name, self.index_of), some(self.job_names, 3)
            raise TraceError(f"trace {self.name!r} has no job {name!r:.200}{near} (it has {known})")
        return self.jobs[self.index_of[name]]
