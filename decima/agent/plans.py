r"""Plans: all choices of one scheduling event, drawn from one pass of the network.

A plan orders the stages that may be chosen, gives every job a limit and, where executors are of
several classes, every stage a class. The order is drawn without
replacement from one softmax over the stages and *the end*, after which nothing is given (Plackett
1975; Luce 1959):

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

from decima.agent import choice_kernels
from decima.agent.choice_kernels import Chosen, Drawn, Logits
from decima.agent.forward_kernels import Found
from decima.agent.graph import Graph, Legal
from decima.agent.network import Scores
from spark_sim.kernels.choices import Preferences
from traces.numbers import Int64

_NEVER = -1e9
_COUNT = np.uint64(0xD1342543DE82EF95)
"""odd: the keys of a run's plans are multiples of it apart"""


class Plans(NamedTuple):
    """Q plans for decisions of a batch; entries and limits count from those of the decision."""

    decision: Int64  # (Q,)
    ptr: Int64  # (Q + 1,)
    order: Int64  # (K,) number of the stage among the decision's open ones; their count: the end,
    # after which entries are unused and unsorted
    used: Int64  # (Q,) entries that were used
    job_ptr: Int64  # (Q + 1,)
    limit: Int64  # (jobs,) limit of each job of the decision, among the decision's; -1: none
    kind: Int64  # (K,) class for each stage by its number, among the decision's; -1: any


class Taken(NamedTuple):
    """Log-probabilities and entropies of Q plans, with gradients."""

    log_prob: Tensor  # (Q,)
    entropy: Tensor  # (Q,) of the first stage, a limit and a class, over the greatest: 0 to 1


def draw(scores: Found, legal: Legal, decision: Int64, key: NDArray[np.uint64] | None) -> Plans:
    """Q plans.

    Args:
        scores: of B decisions.
        legal: what their rows stand for.
        decision: (Q,) the decision that each plan is for.
        key: (Q,) not 0, of the draws; None takes the likeliest plan: the likeliest order and
            classes, and of each job's limits, which are ordered, the median.
    """
    counts = legal.open_ptr[decision + 1] - legal.open_ptr[decision] + 1
    jobs = legal.job_ptr[decision + 1] - legal.job_ptr[decision]
    ptr, job_ptr = pointers(counts), pointers(jobs)
    drawn = Drawn(
        decision,
        np.zeros(len(decision), np.uint64) if key is None else key,
        ptr,
        np.empty(ptr[-1]),
        job_ptr,
        np.empty(job_ptr[-1], np.int64),
        *(np.empty(ptr[-1], np.int64) for _ in range(3)),
    )
    logits = Logits(
        scores.stage,
        scores.end,
        scores.limit,
        legal.open_ptr,
        legal.job_ptr,
        legal.limit_ptr,
        scores.kind,
        legal.kind_ptr,
    )
    choice_kernels.draw(logits, drawn)
    return Plans(decision, ptr, drawn.order, counts, job_ptr, drawn.limit, drawn.kind)


def key_of(run: NDArray[np.uint64], count: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The random bits of the plan that comes after `count` others, from those of its run."""
    return run + count * _COUNT


def preferences(plans: Plans, legal: Legal) -> Preferences:
    """Return the plans as the simulator takes them; stages are rows of the scene."""
    chosen = Chosen(
        plans.decision,
        plans.ptr,
        plans.order,
        plans.job_ptr,
        plans.limit,
        plans.kind,
        legal.open_stage,
        legal.open_ptr,
        legal.open_job,
        legal.limit,
        legal.limit_ptr,
        legal.job_ptr,
        legal.kind,
        legal.kind_ptr,
    )
    found = Preferences(plans.ptr, *(np.empty(len(plans.order), np.int64) for _ in range(3)))
    choice_kernels.prefer(chosen, found)
    return found


def picked(every: Plans, rows: Int64) -> Plans:
    """Return the plans of `rows`."""
    return Plans(
        every.decision[rows],
        pointers(np.diff(every.ptr)[rows]),
        every.order[rows_of(every.ptr, rows)],
        every.used[rows],
        pointers(np.diff(every.job_ptr)[rows]),
        every.limit[rows_of(every.job_ptr, rows)],
        every.kind[rows_of(every.ptr, rows)],
    )


def copied_plans(plans: Plans) -> Plans:
    """Return a copy of the plans whose choices may be overwritten."""
    return plans._replace(
        order=plans.order.copy(),
        used=plans.used.copy(),
        limit=plans.limit.copy(),
        kind=plans.kind.copy(),
    )


def put(plans: Plans, row: int, other: Plans) -> None:
    """Replace the choices of one of the plans by those of a single other one."""
    entries = slice(int(plans.ptr[row]), int(plans.ptr[row + 1]))
    plans.order[entries] = other.order
    plans.kind[entries] = other.kind
    plans.limit[plans.job_ptr[row] : plans.job_ptr[row + 1]] = other.limit


def chosen(plans: Plans, others: Plans, is_other: Int64) -> Plans:
    """Return `plans` with those of `others` where `is_other` (Q,) is 1; both for like decisions."""
    entry = np.repeat(is_other, np.diff(plans.ptr)) == 1
    job = np.repeat(is_other, np.diff(plans.job_ptr)) == 1
    return plans._replace(
        order=np.where(entry, others.order, plans.order),
        used=np.where(is_other == 1, others.used, plans.used),
        limit=np.where(job, others.limit, plans.limit),
        kind=np.where(entry, others.kind, plans.kind),
    )


def taken(scores: Scores, graph: Graph, plans: Plans) -> Taken:
    """Log-probabilities of plans for the B decisions of a graph."""
    decisions = len(scores.end)
    num_open = torch.bincount(graph.decision_of_stage, minlength=decisions).numpy()
    first_open = pointers(num_open)
    order = _order_logits(scores, plans, first_open)
    asked = asked_of(plans)
    limits, entropies = _limits(scores, graph, plans, first_open, asked)
    stage_entropy, most = _first_entropy(scores, graph, num_open)
    first = torch.from_numpy(plans.decision)
    entropy = (stage_entropy / most).index_select(0, first)
    if len(graph.class_x) == 0:
        return Taken(order + limits, (entropy + entropies) / 2)
    kinds, kind_entropies, has_classes = _kinds(scores, graph, plans, first_open, asked)
    entropy = (entropy + entropies + kind_entropies) / (2 + has_classes)
    return Taken(order + limits + kinds, entropy)


class Asked(NamedTuple):
    """The entries of plans that were looked at, the end excepted."""

    plan: Int64
    stage: Int64  # number among those of the decision


def asked_of(plans: Plans) -> Asked:
    """Return what a round looked at of each plan, plan by plan."""
    counts = np.diff(plans.ptr)
    plan = np.repeat(np.arange(len(counts)), counts)
    place = np.arange(len(plan)) - plans.ptr[plan]
    asked = (place < plans.used[plan]) & (plans.order < counts[plan] - 1)
    return Asked(plan[asked], plans.order[asked])


def _order_logits(scores: Scores, plans: Plans, first_open: Int64) -> Tensor:
    """(Q,) log-probability of the entries looked at."""
    counts = np.diff(plans.ptr)
    widest = int(counts.max(initial=1))
    entry = np.arange(widest)[None, :]
    inside = entry < counts[:, None]
    order = np.zeros(inside.shape, np.int64)
    order[inside] = plans.order
    ends = order == counts[:, None] - 1
    row = first_open[plans.decision][:, None] + order
    row = np.where(ends, len(scores.stage) + plans.decision[:, None], row)
    every = torch.cat((scores.stage, scores.end))
    logits = every[torch.from_numpy(np.where(inside, row, 0))]
    logits = logits.masked_fill(torch.from_numpy(~inside), _NEVER)
    left = logits.flip(1).logcumsumexp(1).flip(1)
    looked_at = torch.from_numpy(entry < plans.used[:, None])
    return ((logits - left) * looked_at).sum(1)


def _limits(
    scores: Scores, graph: Graph, plans: Plans, first_open: Int64, asked: Asked
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
    scores: Scores, graph: Graph, plans: Plans, first_open: Int64, asked: Asked
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


def _first_entropy(scores: Scores, graph: Graph, num_open: Int64) -> tuple[Tensor, Tensor]:
    """(B,) entropy of the first entry, and the greatest that it could be."""
    decisions = len(scores.end)
    owner = torch.cat((graph.decision_of_stage, torch.arange(decisions)))
    _, entropy = log_softmax(torch.cat((scores.stage, scores.end)), owner, decisions)
    return entropy, _greatest(num_open + 1)


def log_softmax(logits: Tensor, owner: Tensor, segments: int) -> tuple[Tensor, Tensor]:
    """Log-probabilities (rows,) within each segment, and the entropy (segments,) of each.

    Args:
        logits: (rows,).
        owner: (rows,) int64, the segment of each.
        segments: how many there are; one without rows has entropy 0.
    """
    log_prob = softmax(logits, owner, num_nodes=segments).clamp(min=1e-30).log()
    return log_prob, scatter(-log_prob.exp() * log_prob, owner, dim_size=segments)


def rows_of(ptr: Int64, index: Int64) -> Int64:
    """All rows ptr[i]:ptr[i + 1] of the segments i in `index`, in their order."""
    counts = ptr[index + 1] - ptr[index]
    starts = np.repeat(ptr[index] - (np.cumsum(counts) - counts), counts)
    rows: Int64 = starts + np.arange(len(starts))
    return rows


def pointers(counts: NDArray[np.int64]) -> Int64:
    """(n + 1,) where segments of so many rows begin and end."""
    ptr = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=ptr[1:])
    return ptr
