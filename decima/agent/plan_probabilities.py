r"""Log-probabilities and entropies of plans, with gradients.

The order of a plan is drawn without replacement from one softmax over the stages and *the end*,
after which nothing is given (Plackett 1975; Luce 1959):

.. math::
    \log \pi = \sum_{k \le n} \Big(q_{v_k} - \log \sum_{m \ge k} e^{q_{v_m}}\Big)
        + \sum_i \log \mathrm{softmax}(w_i)_{l_i} + \sum_v \log \mathrm{softmax}(u_v)_{c_v}

over the n entries used before no executor was left, the stages v among them and the jobs i of
those.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.utils import scatter, softmax

from decima.agent.forward_kernels import Scores
from decima.agent.graph import Graph
from decima.agent.plans import Asked, Plans, asked_of, picked, pointers
from traces.numbers import Int64

_NEVER = -1e9


class Taken(NamedTuple):
    """Log-probabilities and entropies of Q plans, with gradients."""

    log_prob: Tensor  # (Q,)
    entropy: Tensor  # (Q,) of the first stage, a limit and a class, over the greatest: 0 to 1


def taken(scores: Scores[Tensor], graph: Graph, plans: Plans) -> Taken:
    """Log-probabilities of plans for the B decisions of a graph."""
    decisions = len(scores.end)
    num_open = torch.bincount(graph.decision_of_stage, minlength=decisions).numpy()
    first_open = pointers(num_open)
    order = _order_logits(scores, plans, first_open)
    asked = asked_of(plans)
    limits, entropies = _limits(scores, graph, plans, first_open, asked)
    owner = torch.cat((graph.decision_of_stage, torch.arange(decisions)))
    _, stage_entropy = log_softmax(torch.cat((scores.stage, scores.end)), owner, decisions)
    share = stage_entropy / _greatest(num_open + 1)
    entropy = share.index_select(0, torch.from_numpy(plans.decision))
    if len(graph.class_x) == 0:
        return Taken(order + limits, (entropy + entropies) / 2)
    kinds, kind_entropies, has_classes = _kinds(scores, graph, plans, first_open, asked)
    entropy = (entropy + entropies + kind_entropies) / (2 + has_classes)
    return Taken(order + limits + kinds, entropy)


def _order_logits(scores: Scores[Tensor], plans: Plans, first_open: Int64) -> Tensor:
    """(Q,) log-probability of the entries looked at.

    Plans of about as many entries are computed together: most have few, and the longest many.
    """
    logits = torch.cat((scores.stage, scores.end))
    size = np.ceil(np.log2(np.diff(plans.ptr)))
    log_prob = logits.new_zeros(len(size))
    for entries in np.unique(size):
        rows = np.flatnonzero(size == entries)
        of_rows = _padded_log_prob(logits, picked(plans, rows), first_open)
        log_prob = log_prob.index_put((torch.from_numpy(rows),), of_rows)
    return log_prob


def _padded_log_prob(scores: Tensor, plans: Plans, first_open: Int64) -> Tensor:
    """(Q,) as above, for few plans; `scores` are the logits of all stages, then of all ends."""
    counts = np.diff(plans.ptr)
    entry = np.arange(int(counts.max()))[None, :]
    inside = entry < counts[:, None]
    order = np.zeros(inside.shape, np.int64)
    order[inside] = plans.order
    ends = order == counts[:, None] - 1
    row = first_open[plans.decision][:, None] + order
    row = np.where(ends, first_open[-1] + plans.decision[:, None], row)
    logits = scores[torch.from_numpy(np.where(inside, row, 0))]
    logits = logits.masked_fill(torch.from_numpy(~inside), _NEVER)
    left = logits.flip(1).logcumsumexp(1).flip(1)
    looked_at = torch.from_numpy(entry < plans.used[:, None])
    return ((logits - left) * looked_at).sum(1)


def _limits(
    scores: Scores[Tensor], graph: Graph, plans: Plans, first_open: Int64, asked: Asked
) -> tuple[Tensor, Tensor]:
    """(Q,) log-probability of the limits of the jobs looked at; (Q,) their mean entropy, 0 to 1."""
    log_prob, entropy = log_softmax(scores.limit, graph.job_of_limit, len(graph.job_x))
    first_job = pointers(
        torch.bincount(graph.decision_of_job, minlength=len(first_open) - 1).numpy()
    )
    per_job = torch.bincount(graph.job_of_limit, minlength=len(graph.job_x)).numpy()
    first_limit = pointers(per_job)
    first = first_open[plans.decision[asked.plan]]
    job = graph.job_of_stage.numpy()[first + asked.stage]
    pairs = np.unique(asked.plan * (len(graph.job_x) + 1) + job)
    plan, job = np.divmod(pairs, len(graph.job_x) + 1)
    decision = plans.decision[plan]
    chosen = plans.limit[plans.job_ptr[plan] + job - first_job[decision]]
    row = torch.from_numpy(first_limit[first_job[decision]] + chosen)
    owner, count = torch.from_numpy(plan), len(plans.decision)
    total = scatter(log_prob.index_select(0, row), owner, dim_size=count)
    share = (entropy / _greatest(per_job)).index_select(0, torch.from_numpy(job))
    return total, scatter(share, owner, dim_size=count, reduce="mean")


def _kinds(
    scores: Scores[Tensor], graph: Graph, plans: Plans, first_open: Int64, asked: Asked
) -> tuple[Tensor, Tensor, Tensor]:
    """(Q,) log-probability of the classes of the stages looked at; (Q,) their mean entropy; (Q,) 1
    for plans that name classes: those of a cluster with one class do not.
    """
    stages, count = len(graph.stage_x), len(plans.decision)
    log_prob, entropy = log_softmax(scores.kind, graph.stage_of_class, stages)
    per_stage = torch.bincount(graph.stage_of_class, minlength=stages).numpy()
    first_kind = pointers(per_stage)
    first = first_open[plans.decision[asked.plan]]
    names = per_stage[first + asked.stage] > 0
    plan, first, stage = asked.plan[names], first[names], (first + asked.stage)[names]
    chosen = plans.kind[plans.ptr[plan] + asked.stage[names]]
    row = torch.from_numpy(first_kind[first] + chosen)
    owner = torch.from_numpy(plan)
    total = scatter(log_prob.index_select(0, row), owner, dim_size=count)
    share = (entropy / _greatest(per_stage)).index_select(0, torch.from_numpy(stage))
    classes = torch.bincount(
        graph.decision_of_stage.index_select(0, graph.stage_of_class), minlength=len(first_open) - 1
    )
    has_classes = (classes > 0).float().index_select(0, torch.from_numpy(plans.decision))
    return total, scatter(share, owner, dim_size=count, reduce="mean"), has_classes


def _greatest(choices: NDArray[np.int64]) -> Tensor:
    """The greatest entropy of so many choices; of a single one that of two."""
    return torch.from_numpy(np.log(np.maximum(choices, 2)).astype(np.float32))


def log_softmax(logits: Tensor, owner: Tensor, segments: int) -> tuple[Tensor, Tensor]:
    """Log-probabilities (rows,) within segments of `owner` (rows,), and each one's entropy
    (segments,).
    """
    log_prob = softmax(logits, owner, num_nodes=segments).clamp(min=1e-30).log()
    return log_prob, scatter(-log_prob.exp() * log_prob, owner, dim_size=segments)
