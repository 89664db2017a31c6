"""Scoring recorded decisions again, with gradients: what an update is made of.

M decisions with J jobs and O open stages, in which S snapshots occur.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from decima.agent.acting import limits_of
from decima.agent.memory import GraphSorter, as_levels, cluster_embedding
from decima.agent.network import Embeddings, HeadInputs, LimitInputs, PolicyNetwork
from decima.agent.recording import Recording
from traces.numbers import Int64


class Scores(NamedTuple):
    """Of M decisions, all with gradients."""

    log_prob: Tensor  # (M,) of the recorded actions
    entropy: Tensor  # (M,) of stage and limit, over its greatest possible value: 0 to 1
    value: Tensor  # (M,) the critic's


class Scorer:
    """Cuts decisions out of a recording and scores them."""

    def __init__(self, network: PolicyNetwork, sorter: GraphSorter, recording: Recording) -> None:
        self._network = network
        self._device = next(network.parameters()).device
        self._sorter = sorter
        self._recording = recording
        self._job_ptr = _pointers(recording.decisions.num_jobs)
        self._open_ptr = _pointers(recording.decisions.num_open)
        sizes = np.diff(sorter.graphs.first_stage)
        self._size = sizes[recording.snapshots.template].astype(np.int64)

    def score(self, index: Int64) -> Scores:
        """The decisions `index` of the recording; neighbours in time share embeddings."""
        decisions, rows = self._recording.decisions, self._recording.rows
        jobs = rows_of(self._job_ptr, index)
        stages = rows_of(self._open_ptr, index)
        num_jobs, num_open = decisions.num_jobs[index], decisions.num_open[index]
        decision_of_stage = np.repeat(np.arange(len(index)), num_open)
        first_job = np.cumsum(num_jobs) - num_jobs
        job_of_stage = first_job[decision_of_stage] + rows.job_of_stage[stages]
        inputs = HeadInputs(
            self._tensor(rows.stage_x[stages]),
            self._tensor(rows.job_x[jobs]),
            self._tensor(decisions.cluster_x[index]),
            self._tensor(job_of_stage),
            self._tensor(decision_of_stage),
        )
        embeddings = self._embed(jobs, num_jobs, job_of_stage, rows.local_stage[stages])
        stage_part, stage_entropy, most = self._score_stages(embeddings, inputs, index)
        limit_part, limit_entropy, most_limits = self._score_limits(embeddings, inputs, index)
        greatest = self._tensor(np.log(np.maximum(most * most_limits, 2.0)).astype(np.float32))
        return Scores(
            stage_part + limit_part,
            (stage_entropy + limit_entropy) / greatest,
            self._network.values(embeddings, inputs),
        )

    def _embed(
        self, jobs: Int64, num_jobs: Int64, job_of_stage: Int64, local_stage: Int64
    ) -> Embeddings:
        """Each snapshot once, then handed to the decisions that saw it."""
        network, store = self._network, self._recording.snapshots
        size, decisions = network.config.embedding, len(num_jobs)
        if not network.config.embeddings:
            return Embeddings(
                torch.zeros((len(job_of_stage), size), device=self._device),
                torch.zeros((len(jobs), size), device=self._device),
                torch.zeros((decisions, size), device=self._device),
            )
        used, which = np.unique(self._recording.rows.snapshot[jobs], return_inverse=True)
        arrays = self._sorter.sort(store.template[used], store.first_node[used])
        encoder = network.encoder
        x = self._tensor(store.node_x[arrays.node])
        e = encoder.nodes(x, as_levels(arrays, self._device))
        y_once = encoder.jobs(x, e, self._tensor(arrays.graph), len(used))
        job = self._tensor(which)
        of_decision = self._tensor(np.repeat(np.arange(decisions), num_jobs))
        sums = torch.zeros((decisions, size), device=self._device).index_add(
            0, of_decision, encoder.summands(y_once).index_select(0, job)
        )
        first_place = np.cumsum(self._size[used]) - self._size[used]
        node = arrays.place[first_place[which[job_of_stage]] + local_stage]
        return Embeddings(
            e.index_select(0, self._tensor(node)),
            y_once.index_select(0, job),
            cluster_embedding(network, sums, self._tensor(num_jobs)),
        )

    def _score_stages(
        self, embeddings: Embeddings, inputs: HeadInputs, index: Int64
    ) -> tuple[Tensor, Tensor, NDArray[np.float64]]:
        """Log-probability of the stage, entropy, number of choices; passing is the last choice."""
        decisions = self._recording.decisions
        num_open = decisions.num_open[index]
        logits, passing = self._network.stage_logits(embeddings, inputs)
        allowed = decisions.may_pass[index] & self._network.config.may_idle
        passing = passing.masked_fill(self._tensor(~allowed), -torch.inf)
        owner = torch.cat((inputs.decision_of_stage, torch.arange(len(index), device=self._device)))
        log_prob, entropy = segment_log_softmax(torch.cat((logits, passing)), owner, len(index))
        picked = decisions.picked[index]
        row = np.cumsum(num_open) - num_open + picked
        row = np.where(picked < num_open, row, len(logits) + np.arange(len(index)))
        most = (num_open + allowed).astype(np.float64)
        return log_prob[self._tensor(row)], entropy, most

    def _score_limits(
        self, embeddings: Embeddings, inputs: HeadInputs, index: Int64
    ) -> tuple[Tensor, Tensor, NDArray[np.float64]]:
        """Log-probability of the limit, entropy, number of choices; 0, 0 and 1 without a choice."""
        decisions = self._recording.decisions
        most = np.ones(len(index))
        nothing = torch.zeros(len(index), device=self._device)
        chosen = np.flatnonzero(decisions.room[index] > 1)
        if not self._network.config.limit_head or not len(chosen):
            return nothing, nothing, most
        at = index[chosen]
        first_open = np.cumsum(decisions.num_open[index]) - decisions.num_open[index]
        limits = limits_of(
            decisions.held[at],
            decisions.room[at],
            decisions.local[at],
            decisions.num_jobs[at],
            decisions.executors[at],
            first_open[chosen] + decisions.picked[at],
        )
        choices = LimitInputs(*(part.to(self._device) for part in limits.inputs))
        logits = self._network.limit_logits(embeddings, inputs, choices)
        log_prob, entropy = segment_log_softmax(logits, choices.owner, len(chosen))
        row = self._tensor(limits.ptr[:-1] + decisions.added[at] - 1)
        most[chosen] = decisions.room[at]
        where = self._tensor(chosen)
        return (
            nothing.index_copy(0, where, log_prob[row]),
            nothing.index_copy(0, where, entropy),
            most,
        )

    def _tensor(self, values: NDArray[Any]) -> Tensor:
        return torch.from_numpy(values).to(self._device)


def segment_log_softmax(logits: Tensor, owner: Tensor, segments: int) -> tuple[Tensor, Tensor]:
    """Log-probabilities (rows,) within each segment, and the entropy (segments,) of each.

    Args:
        logits: (rows,); -inf is no choice.
        owner: (rows,) int64, the segment of each.
        segments: how many there are; each has a choice.
    """
    with torch.no_grad():
        top = torch.full((segments,), -torch.inf, device=logits.device).scatter_reduce(
            0, owner, logits, "amax"
        )
    shifted = logits - top.index_select(0, owner)
    weight = shifted.exp()
    total = logits.new_zeros(segments).index_add(0, owner, weight)
    log_prob = shifted - total.log().index_select(0, owner)
    # p log p, which is 0 where p is 0: -inf must not meet 0.
    finite = log_prob.masked_fill(torch.isneginf(log_prob), 0.0)
    entropy = logits.new_zeros(segments).index_add(0, owner, -finite.exp() * finite)
    return log_prob, entropy


def rows_of(ptr: Int64, index: Int64) -> Int64:
    """All rows ptr[i]:ptr[i + 1] of the segments i in `index`, in their order."""
    counts = ptr[index + 1] - ptr[index]
    starts = np.repeat(ptr[index] - (np.cumsum(counts) - counts), counts)
    rows: Int64 = starts + np.arange(len(starts))
    return rows


def _pointers(counts: Int64) -> Int64:
    return np.concatenate([[0], np.cumsum(counts)])
