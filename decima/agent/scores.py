"""`Scores` and `Embeddings`, and `FewScores`: the heads of few choices in compiled code."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn

from decima.agent import columns
from decima.agent.graph import Graph
from decima.agent.score_kernels import Found, HeadLayers, Heads, Known, score
from gnn.encoder import NEGATIVE_SLOPE
from gnn.few import layer_of
from gnn.heads import Head

FEW_ROWS = 400
"""so many stages, limits and classes each are scored in compiled code where no gradient is wanted
(benchmark `encoder_speed`)"""
_PLANNED = columns.CLUSTER.index("planned")


class Embeddings(NamedTuple):
    """What the encoder knows of B decisions."""

    e: Tensor  # (O, D) of the stages that may be chosen
    y: Tensor  # (J, D)
    z: Tensor  # (B, D)


class Scores(NamedTuple):
    """Logits of all choices of B decisions, and what the critic expects of their states."""

    stage: Tensor  # (O,) q_v
    end: Tensor  # (B,) of leaving idle what is left
    limit: Tensor  # (M,) w_i(l), among the limits of one job; 0 of one that has no other
    kind: Tensor  # (K,) u_v(c), among the classes of one stage
    value: Tensor  # (B,)


class FewScores:
    """The weights of all heads as compiled code reads them; they share the memory of their own."""

    def __init__(self, heads: dict[str, Head], sharpness: Tensor) -> None:
        """Args:
        heads: by the names of `Heads`.
        sharpness: (3,) of stages, of limits and of classes.
        """
        self._heads = Heads(**{name: _layers_of(head) for name, head in heads.items()})
        self._sharpness = sharpness.numpy()

    def of(self, graph: Graph, seen: Embeddings) -> Scores:
        """As the rest of `PolicyNetwork.forward`, but for rounding."""
        known = _known(graph, seen)
        found = _room(known, len(self._heads.stage.parts[0].bias))
        score(known, self._heads, self._sharpness, _PLANNED, NEGATIVE_SLOPE, found)
        return Scores(*map(torch.from_numpy, found[: len(Scores._fields)]))


def are_few(graph: Graph) -> bool:
    """Whether compiled code scores these choices sooner than torch."""
    return max(len(graph.stage_x), len(graph.limit_x), len(graph.class_x)) <= FEW_ROWS


def _known(graph: Graph, seen: Embeddings) -> Known:
    tensors = (
        *seen, *graph[:5], *graph.rule,
        graph.job_of_stage, graph.job_of_limit, graph.stage_of_class, graph.decision_of_job,
    )  # fmt: skip
    return Known(*(one.numpy() for one in tensors))


def _room(known: Known, hidden: int) -> Found:
    """Arrays for what `score` finds."""
    stages, jobs, clusters = len(known.e), len(known.y), len(known.z)
    limits, kinds = len(known.limit_x), len(known.class_x)
    kind = known.z.dtype
    return Found(
        np.empty(stages, kind),
        np.empty(clusters, kind),
        np.empty(limits, kind),
        np.empty(kinds, kind),
        np.empty(clusters, kind),
        np.empty(clusters, kind),
        np.empty((3, clusters, hidden), kind),
        np.empty((3, jobs, hidden), kind),
        np.empty((stages if kinds else 0, hidden), kind),
    )


def _layers_of(head: Head) -> HeadLayers:
    parts, body = (cast(Iterable[nn.Linear], one) for one in (head.parts, head.body))
    return HeadLayers(
        tuple(layer_of(part) for part in parts),
        tuple(layer_of(layer) for layer in (*body, head.last)),
    )
