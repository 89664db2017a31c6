"""Networks over the jobs of a cluster, of torch's own Transformer modules.

Half of the heads of each attention look at neighbours alone: in the encoder a job at jobs that
share a server with it, in the decoder a server at the jobs that it holds. That is where the
placement (the paper's d) enters, so that servers have no numbers and equal ones are scored alike.
With one head, it is of that kind.

Letters: B observations, N rows of jobs, M servers, D width, H heads.

Source: Harmony, section V-A, figure 8: encoder and decoder of 2 layers, 128 wide, with 8 heads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor, nn

from decima.rl.errors import StudyError
from decima.rl.model_files import MAX_LAYERS, check_layers
from decima.rl.study.settings import AtLeastOne, Range, Settings
from harmony.config import MOST_GPU_TYPES
from harmony.measured import MOST_MODELS
from harmony.tables import Float32
from harmony.tokens import Running, Scene, job_columns, server_columns

MAX_PARAMETERS = 2**24
"""of a policy with its critic: those of the paper's size have 1.1 million"""


@dataclass(frozen=True)
class Size(Settings):
    """Size of the Transformers. The defaults are the paper's."""

    SECTION = "size"

    width: AtLeastOne = 128
    """D, also of the hidden layer after each attention"""
    layers: Annotated[int, Range(1, MAX_LAYERS)] = 2
    """of the encoder, and as many of the decoder"""
    heads: AtLeastOne = 8
    """H"""
    models: Annotated[int, Range(1, MOST_MODELS)] = 6
    """types of jobs that there are"""
    gpu_types: Annotated[int, Range(1, MOST_GPU_TYPES)] = 1
    """types of GPUs that there are; with 1 the network ignores them"""

    def check(self) -> None:
        """Refuse heads of unequal widths, and wide layers."""
        heads = f"width {self.width}, {self.heads} heads: heads must divide the width"
        self.require(self.width % self.heads == 0, heads)
        check_layers({"width": (self.width,)}, StudyError)


def attention_mask(near: Tensor, is_job: Tensor, heads: int) -> Tensor:
    """(B H, Q, N) what attention adds to its scores: 0 where it may look, else minus infinity.

    Args:
        near: (B, Q, N) which rows the near half of the heads may look at; one in each at least.
        is_job: (B, N) which rows the others may.
        heads: H.
    """
    batch, queries, rows = near.shape
    far = (is_job[:, None, :] | near).expand(batch, queries, rows)
    local = (heads + 1) // 2
    kinds = [
        near[:, None].expand(-1, local, -1, -1),
        far[:, None].expand(-1, heads - local, -1, -1),
    ]
    allowed = torch.cat(kinds, dim=1).reshape(batch * heads, queries, rows)
    return torch.zeros(allowed.shape).masked_fill(~allowed, float("-inf"))


def _encoder(size: Size) -> nn.TransformerEncoder:
    layer = nn.TransformerEncoderLayer(
        size.width, size.heads, size.width, dropout=0.0, batch_first=True
    )
    return nn.TransformerEncoder(layer, size.layers, enable_nested_tensor=False)


def _embedded(layer: nn.Linear, rows: Float32) -> Tensor:
    """(..., D) rows after a layer; columns beyond those that it knows, of GPUs, are ignored."""
    embedded: Tensor = layer(torch.from_numpy(rows[..., : layer.in_features]))
    return embedded


class Representation(nn.Module):
    """Jobs encoded, servers decoded from them: (B, M, D)."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self._heads = size.heads
        self.job = nn.Linear(job_columns(size.models, size.gpu_types), size.width)
        self.server = nn.Linear(server_columns(size.gpu_types), size.width)
        self.encoder = _encoder(size)
        layer = nn.TransformerDecoderLayer(
            size.width, size.heads, size.width, dropout=0.0, batch_first=True
        )
        self.decoder = nn.TransformerDecoder(layer, size.layers)

    def forward(self, scene: Scene) -> Tensor:
        """(B, M, D)"""
        is_job = torch.from_numpy(scene.is_job)
        # A row without a job attends only to itself, and no other row attends to it.
        self_only = torch.eye(is_job.shape[1], dtype=torch.bool)
        beside = torch.from_numpy(scene.beside) | self_only
        among = attention_mask(beside, is_job, self._heads)
        memory = self.encoder(_embedded(self.job, scene.job).relu(), mask=among)
        across = attention_mask(torch.from_numpy(scene.holds), is_job, self._heads)
        server = _embedded(self.server, scene.server).relu()
        decoded: Tensor = self.decoder(server, memory, memory_mask=across)
        return decoded


class PolicyNetwork(nn.Module):
    """Scores of the actions; those that are not allowed have minus infinity."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.models = size.models
        self.gpu_types = size.gpu_types
        self.representation = Representation(size)
        self.head = nn.Linear(size.width, 2)

    def forward(self, scene: Scene) -> Tensor:
        """(B, 2 M)"""
        score: Tensor = self.head(self.representation(scene)).transpose(1, 2).flatten(1)
        return score.masked_fill(~torch.from_numpy(scene.allowed), float("-inf"))


class ValueNetwork(nn.Module):
    """Network that estimates the discounted rewards to come, over a constant."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.representation = Representation(size)
        self.head = nn.Linear(size.width, 1)

    def forward(self, scene: Scene) -> Tensor:
        """(B,)"""
        value: Tensor = self.head(self.representation(scene).mean(dim=1)).squeeze(1)
        return value


class ActorCritic(nn.Module):
    """A policy and its critic, which share nothing."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.policy = PolicyNetwork(size)
        self.value = ValueNetwork(size)


class RewardModel(nn.Module):
    r"""Predict the epochs per minute of all running jobs at once.

    .. math:: \log v_n = a_n + k_n b_n

    with two outputs for each job and the number k of jobs that share a server with it: attention
    gives means over those, and what each of them costs adds up. Batch normalisation is that of the
    embedding, over rows that are jobs. Source: Harmony, section V-C, figure 9, which has one
    output.
    """

    def __init__(self, size: Size) -> None:
        super().__init__()
        self._heads = size.heads
        self.job = nn.Linear(job_columns(size.models, size.gpu_types), size.width)
        self.norm = nn.BatchNorm1d(size.width)
        self.encoder = _encoder(size)
        self.head = nn.Linear(size.width, 2)

    def forward(self, running: Running) -> Tensor:
        """(B, N) epochs a minute; rows without a job have numbers that mean nothing."""
        is_job = torch.from_numpy(running.is_job)
        embedded = _embedded(self.job, running.job)
        normal = torch.zeros_like(embedded)
        normal[is_job] = self.norm(embedded[is_job]).relu()
        beside = torch.from_numpy(running.beside) | torch.eye(is_job.shape[1], dtype=torch.bool)
        mask = attention_mask(beside, is_job, self._heads)
        base, each = self.head(self.encoder(normal, mask=mask)).unbind(2)
        neighbours = beside.sum(2) - 1
        speed: Tensor = (base + neighbours * each).exp()
        return speed
