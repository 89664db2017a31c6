"""Jobs as graphs of PyTorch Geometric."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch_geometric.data import Data

from traces.model import Job
from traces.numbers import MS_PER_S
from traces.trace import Trace

if TYPE_CHECKING:

    class InMemoryDataset:
        """The part of PyTorch Geometric's class in use here, which has no types."""

        data: Any
        slices: Any
        num_features: int

        def __init__(self, root: None, transform: Callable[[Data], Data] | None) -> None: ...
        def __len__(self) -> int: ...
        def __getitem__(self, index: int) -> Any: ...
        def __iter__(self) -> Iterator[Any]: ...
        def collate(self, data_list: list[Data]) -> tuple[Any, Any]: ...

else:
    from torch_geometric.data import InMemoryDataset

STAGE_FEATURES = ("tasks", "task duration", "work")
"""columns of `x`: log(1 + number of tasks), log(1 + mean task duration in s), log(1 + work in s)"""


def to_pyg(job: Job) -> Data:
    """Return a job as a graph with one node a stage, in the job's order.

    Returns:
        x: (V, 3) float32, the columns of `STAGE_FEATURES`.
        edge_index: (2, E) int64, parent to child.
        task_s: (V,) float32 mean task duration.
        critical_path_s: (V,) float32 longest chain of mean task durations from the stage to the
            job's end, its own included: `Job.critical_path_ms`.
        name: of the job.
    """
    stages = job.stages
    features = [
        [
            math.log1p(stage.num_tasks),
            math.log1p(stage.mean_ms / MS_PER_S),
            math.log1p(stage.work_ms / MS_PER_S),
        ]
        for stage in stages
    ]
    edges = [(parent, child) for child, stage in enumerate(stages) for parent in stage.parents]
    return Data(
        x=torch.tensor(features, dtype=torch.float32),
        edge_index=torch.tensor(edges, dtype=torch.int64).reshape(-1, 2).T.contiguous(),
        task_s=torch.tensor([stage.mean_ms for stage in stages]) / MS_PER_S,
        critical_path_s=torch.tensor(job.critical_path_ms) / MS_PER_S,
        name=job.name,
    )


class JobGraphs(InMemoryDataset):
    """All jobs of a trace as graphs of `to_pyg`, in the trace's order; in memory, without files."""

    def __init__(self, trace: Trace, transform: Callable[[Data], Data] | None = None) -> None:
        super().__init__(None, transform)
        self.data, self.slices = self.collate([to_pyg(job) for job in trace.jobs])
