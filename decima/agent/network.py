"""The network: the encoder, and the heads that score stages, limits and the state.

.. math::
    q_v = q(e_v, y_i, z), \\qquad w_i(l) = w(y_i, z, l)

(Decima 5.2), with the columns of `decima.agent.columns` beside the embeddings. B decisions, J jobs
in their systems, O stages that may be chosen, D size of an embedding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from decima.agent import columns
from gnn.encoder import NEGATIVE_SLOPE, Encoder, EncoderConfig


@dataclass(frozen=True)
class NetworkConfig:
    """Sizes, and the parts that an ablation leaves out."""

    embedding: int = 16
    """D"""
    hidden: tuple[int, ...] = (16,)
    """hidden layers of the encoder's transforms"""
    head_hidden: tuple[int, ...] = (32, 16)
    """hidden layers of the heads"""
    two_level: bool = True
    """False: no second transform in the sums"""
    messages: bool = True
    """False: no message passing, a stage knows only itself (Decima fig. 14)"""
    embeddings: bool = True
    """False: the heads see no embedding at all, only their columns"""
    limit_head: bool = True
    """False: a stage gets all it can use (Decima fig. 14, "no parallelism control")"""
    may_idle: bool = True
    """False: executors are never left idle while a stage could use them"""
    always_one: bool = True
    """executors are not left idle while a job that holds none could use them"""

    def __post_init__(self) -> None:
        self.encoder()
        if not self.head_hidden or any(size < 1 for size in self.head_hidden):
            raise ValueError(f"head_hidden {self.head_hidden} must hold sizes of at least 1")

    def encoder(self) -> EncoderConfig:
        """The encoder's part; refuses impossible sizes."""
        return EncoderConfig(self.embedding, self.hidden, self.two_level, self.messages)


class Embeddings(NamedTuple):
    """What the encoder knows of B decisions."""

    e: Tensor  # (O, D) of the stages that may be chosen
    y: Tensor  # (J, D)
    z: Tensor  # (B, D)


class HeadInputs(NamedTuple):
    """The columns at the heads, and which rows belong together."""

    stage_x: Tensor  # (O, len(STAGE))
    job_x: Tensor  # (J, len(JOB))
    cluster_x: Tensor  # (B, len(CLUSTER))
    job_of_stage: Tensor  # (O,) int64
    decision_of_stage: Tensor  # (O,) int64


class LimitInputs(NamedTuple):
    """The limits that may be chosen for K stages, M limits in all."""

    limit_x: Tensor  # (M, len(LIMIT))
    owner: Tensor  # (M,) int64, which of the K stages
    stage: Tensor  # (K,) int64, rows among the O stages


class Head(nn.Module):
    """A multilayer perceptron on the concatenation of rows of several tables.

    The first layer is applied to each table before its rows are repeated, which is the same and
    costs less: a job has one row for all its stages.
    """

    def __init__(self, inputs: tuple[int, ...], hidden: tuple[int, ...]) -> None:
        super().__init__()
        first, *rest = hidden
        self.parts = nn.ModuleList(
            nn.Linear(size, first, bias=index == 0) for index, size in enumerate(inputs)
        )
        layers: list[nn.Module] = [nn.LeakyReLU(NEGATIVE_SLOPE)]
        for before, after in zip(hidden, rest, strict=False):
            layers += [nn.Linear(before, after), nn.LeakyReLU(NEGATIVE_SLOPE)]
        self.body = nn.Sequential(*layers)
        self.last = nn.Linear(hidden[-1], 1)
        total = sum(inputs)
        for part in self.parts:
            nn.init.normal_(part.get_parameter("weight"), std=(2 / total) ** 0.5)
        nn.init.zeros_(self.last.weight)  # all choices start equally likely
        nn.init.zeros_(self.last.bias)

    def forward(self, *tables: tuple[Tensor, Tensor | None]) -> Tensor:
        """(rows,) one score for each row.

        Args:
            tables: (values, index) pairs: row r of the result uses values[index[r]], or values[r]
                where the index is None.
        """
        total: Tensor | None = None
        for part, (values, index) in zip(self.parts, tables, strict=True):
            mapped = part(values)
            if index is not None:
                mapped = mapped.index_select(0, index)
            total = mapped if total is None else total + mapped
        score: Tensor = self.last(self.body(total)).squeeze(1)
        return score


class PolicyNetwork(nn.Module):
    """Encoder and heads; one set of weights for any number of jobs, stages and executors."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.config = config
        size = config.embedding
        node, job, stage = len(columns.NODE), len(columns.JOB), len(columns.STAGE)
        cluster, limit = len(columns.CLUSTER), len(columns.LIMIT)
        self.encoder = Encoder(node, config.encoder())
        self.stage_head = Head((size + stage, size + job, size + cluster), config.head_hidden)
        self.pass_head = Head((size + cluster,), config.head_hidden[-1:])
        self.limit_head = Head((limit, stage, size + job, size + cluster), config.head_hidden)
        self.value_head = Head((size + cluster,), config.head_hidden)

    def stage_logits(self, seen: Embeddings, at: HeadInputs) -> tuple[Tensor, Tensor]:
        """(O,) q_v of every stage that may be chosen, (B,) that of leaving the rest idle."""
        stages = torch.cat((seen.e, at.stage_x), dim=1)
        jobs, clusters = self._jobs(seen, at), self._clusters(seen, at)
        logits = self.stage_head(
            (stages, None), (jobs, at.job_of_stage), (clusters, at.decision_of_stage)
        )
        return logits, self.pass_head((clusters, None))

    def limit_logits(self, seen: Embeddings, at: HeadInputs, limits: LimitInputs) -> Tensor:
        """(M,) w(l) of every limit."""
        stage = limits.stage
        job = at.job_of_stage.index_select(0, stage)
        decision = at.decision_of_stage.index_select(0, stage)
        jobs = self._jobs(seen, at).index_select(0, job)
        clusters = self._clusters(seen, at).index_select(0, decision)
        logits: Tensor = self.limit_head(
            (limits.limit_x, None),
            (at.stage_x.index_select(0, stage), limits.owner),
            (jobs, limits.owner),
            (clusters, limits.owner),
        )
        return logits

    def values(self, seen: Embeddings, at: HeadInputs) -> Tensor:
        """(B,) what the critic expects of the states."""
        value: Tensor = self.value_head((self._clusters(seen, at), None))
        return value

    def sharpen(self, factor: float) -> None:
        """Multiply all scores of choices by `factor`: above 1, likely ones become likelier."""
        with torch.no_grad():
            for head in (self.stage_head, self.pass_head, self.limit_head):
                head.last.weight.mul_(factor)
                head.last.bias.mul_(factor)

    @staticmethod
    def _jobs(seen: Embeddings, at: HeadInputs) -> Tensor:
        return torch.cat((seen.y, at.job_x), dim=1)

    @staticmethod
    def _clusters(seen: Embeddings, at: HeadInputs) -> Tensor:
        return torch.cat((seen.z, at.cluster_x), dim=1)

    @property
    def num_parameters(self) -> int:
        return sum(parameter.numel() for parameter in self.parameters())
