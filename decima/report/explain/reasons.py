r"""Reasons for a decision, found by ablating inputs of the network.

A reason is a group of input columns with one meaning, such as the work left. Ablating it gives all
choices the same value in each of its columns: their mean. The network then scores the decision
again. The weight of reason r in a choice is

.. math::
    w_r = \log p(\mathit{choice}) - \log p_r(\mathit{choice})

where p_r is the probability with r ablated. With a weight of 0.7 the reason doubles the
probability. Weights need not add up, because several columns may carry the same information.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from decima.agent import columns
from decima.agent.columns import Choices
from decima.agent.forward_kernels import Scores
from decima.agent.scorer import Scored, Scorer
from traces.numbers import Float32, Float64

LEAST_WEIGHT = 0.1
"""smallest absolute weight of a reason that is shown: a change of the probability by a tenth"""

TABLES: Mapping[str, tuple[str, ...]] = {
    "node": columns.NODE,
    "job": columns.JOB,
    "stage": columns.STAGE,
    "cluster": columns.CLUSTER,
    "limit": columns.LIMIT,
    "class": columns.CLASS,
}
"""names of the input columns by table"""

Group = Mapping[str, Sequence[str]]  # columns of several tables

MESSAGES = "messages"
"""the reason that is ablated by embedding every stage without the edges of its job"""

REASONS: Mapping[str, Group] = {
    "work left": {"job": ("remaining", "relative", "shorter", "typical"), "node": ("left", "work")},
    "executors held": {"job": ("held", "share", "idle"), "node": ("working",)},
    "tasks waiting": {
        "stage": ("demand", "covering", "part", "waves"),
        "job": ("wanted", "leading waves"),
        "limit": ("covering", "waves"),
    },
    "task length": {
        "stage": ("duration", "blocking"),
        "job": ("leading blocking",),
        "node": ("duration",),
    },
    "critical path": {"stage": ("path", "critical"), "job": ("width",)},
    "readiness": {
        "stage": ("runnable", "wait"),
        "job": ("leading runnable", "leading wait"),
        "node": ("runnable",),
    },
    "progress": {"job": ("undone",)},
    "age": {"job": ("age",)},
    "moving cost": {
        "stage": ("moving",),
        "job": ("local", "source", "leading moving"),
        "limit": ("moved",),
    },
    "memory": {"stage": ("scarce", "need"), "node": ("scarce",), "class": columns.CLASS},
    "limit": {"limit": ("limit", "share", "added", "count", "left", "free")},
    "cluster": {"cluster": columns.CLUSTER},
    MESSAGES: {},
}
"""columns of each reason; every column has exactly one reason"""
SINGLE_COLUMNS: Mapping[str, Group] = {
    f"{table}.{name}": {table: (name,)} for table, names in TABLES.items() for name in names
}


@dataclass(frozen=True)
class Reason:
    """Weight of a reason in each part of a choice."""

    name: str
    """key of `REASONS`, or ``table.column`` for a single column"""
    stage: float
    """weight in the log-probability that the stage, or the end of the round, comes first"""
    limit: float
    """weight in the log-probability of the parallelism limit"""
    executor_class: float
    """weight in the log-probability of the class of executors"""

    @property
    def weight(self) -> float:
        """Weight in the log-probability of the whole choice."""
        return self.stage + self.limit + self.executor_class


class Choice(NamedTuple):
    """Rows of a decision's columns that a choice consists of."""

    entry: int  # row of the stage; the number of stages stands for the end of the round
    limits: slice  # rows of the limits of its job; none at the end of the round
    limit: int | None  # which of them
    kinds: slice  # rows of the classes of its stage
    kind: int | None


class LogProbs(NamedTuple):
    """Log-probabilities of the parts of a choice and of what could be chosen instead."""

    entry: Float64  # (O + 1,) of each stage, and of the end of the round, coming first
    limit: Float64  # among the limits of the job chosen
    kind: Float64  # among the classes of the stage chosen


def log_probs(scores: Scores[Float32], choice: Choice) -> LogProbs:
    return LogProbs(
        _log_softmax(np.concatenate((scores.stage, scores.end))),
        _log_softmax(scores.limit[choice.limits]),
        _log_softmax(scores.kind[choice.kinds]),
    )


def _log_softmax(logits: Float32) -> Float64:
    exact: Float64 = logits.astype(np.float64)
    return exact - float(np.logaddexp.reduce(exact))


def reasons_of(
    scorer: Scorer,
    scored: Scored,
    cluster_mean: Float64,
    choice: Choice,
    groups: Mapping[str, Group] = REASONS,
) -> tuple[Reason, ...]:
    """The reasons of at least `LEAST_WEIGHT` for a choice, the heaviest first.

    `cluster_mean` (len(CLUSTER),) ablates the cluster's columns; `groups` name what is ablated.
    """

    def parts(scores: Scores[Float32]) -> tuple[float, float, float]:
        """Return the log-probabilities of the choice's stage, limit and class."""
        log_prob = log_probs(scores, choice)
        return (
            float(log_prob.entry[choice.entry]),
            0.0 if choice.limit is None else float(log_prob.limit[choice.limit]),
            0.0 if choice.kind is None else float(log_prob.kind[choice.kind]),
        )

    observation, choices = scored.observation, scored.choices
    num_stages = observation.jobs["num_stages"][observation.rows]
    ranges = map(np.arange, scored.memory.first_stage, scored.memory.first_stage + num_stages)
    nodes = np.concatenate(list(ranges))
    inputs = {
        "node": scored.memory.x,
        "job": choices.job_x,
        "stage": choices.stage_x,
        "cluster": choices.cluster_x,
        "limit": choices.limit_x,
        "class": choices.class_x,
    }
    # A job counts once for each stage that may be chosen.
    means = {
        "node": scored.memory.x[nodes].mean(0),
        "job": choices.job_x[choices.open_job].mean(0),
        "stage": choices.stage_x.mean(0),
        "cluster": cluster_mean,
        "limit": _mean(choices.limit_x[choice.limits]),
        "class": _mean(choices.class_x[choice.kinds]),
    }
    whole, reasons = parts(scored.scores), []
    for name, group in groups.items():
        ablated = dict(inputs)
        for table, names in group.items():
            places = [TABLES[table].index(column) for column in names]
            ablated[table] = inputs[table].copy()
            ablated[table][:, places] = means[table][places]
        x = ablated.pop("node")
        with_means = {f"{table}_x": values for table, values in ablated.items()}
        changed = Choices(**choices._asdict() | with_means)
        scores = scorer.score_columns(scored, changed, x, messages=name != MESSAGES)
        weights = (a - b for a, b in zip(whole, parts(scores), strict=True))
        reasons.append(Reason(name, *weights))
    shown = (reason for reason in reasons if abs(reason.weight) >= LEAST_WEIGHT)
    return tuple(sorted(shown, key=lambda reason: -abs(reason.weight)))


def _mean(x: Float32) -> Float32:
    """Mean of the rows; zeros of none, which nothing then reads."""
    return x.mean(0) if len(x) > 0 else np.zeros(x.shape[1], np.float32)
