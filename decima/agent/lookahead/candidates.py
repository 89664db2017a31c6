"""Candidate plans: the likeliest, variants of its first choice, and one from elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from decima.agent.forward_kernels import Found
from decima.agent.plans import Plans, pointers
from decima.agent.tables import Legal
from traces.numbers import Float32


@dataclass(frozen=True)
class Width:
    """Bounds on the plans of one decision that are compared."""

    stages: int = 3  # other stages, or none, in the first place
    limits: int = 3  # other limits of the first stage's job
    least: float = 0.02  # choices below this share of the likeliest one's probability are left out

    def __post_init__(self) -> None:
        for label in ("stages", "limits"):
            if getattr(self, label) < 0:
                raise ValueError(f"{label}: {getattr(self, label)} is negative")
        if not 0.0 <= self.least <= 1.0:
            raise ValueError(f"least: {self.least} is no share from 0 to 1")


def candidates(
    scores: Found, legal: Legal, likeliest: Plans, width: Width, other: Plans | None = None
) -> Plans:
    """Return Q plans of one decision: the likeliest, its variants, and last `other` if given."""
    decision = int(likeliest.decision[0])
    first, last = int(legal.open_ptr[decision]), int(legal.open_ptr[decision + 1])
    first_job, last_job = int(legal.job_ptr[decision]), int(legal.job_ptr[decision + 1])
    logits = np.append(scores.stage[first:last], scores.end[decision])
    orders, limits = [likeliest.order], [likeliest.limit]
    leader = int(likeliest.order[0])
    for entry in _runners_up(logits, leader, width.stages, width.least):
        others = likeliest.order[likeliest.order != entry]
        orders.append(np.concatenate([[entry], others]))
        limits.append(likeliest.limit)
    if leader < last - first:
        job = int(legal.open_job[first + leader])
        begin, end = int(legal.limit_ptr[job]), int(legal.limit_ptr[job + 1])
        base = int(legal.limit_ptr[first_job])
        taken = int(likeliest.limit[job - first_job]) - (begin - base)
        for row in _runners_up(scores.limit[begin:end], taken, width.limits, width.least):
            limit = likeliest.limit.copy()
            limit[job - first_job] = begin - base + row
            orders.append(likeliest.order)
            limits.append(limit)
    kinds = [likeliest.kind] * len(orders)
    if other is not None:
        orders.append(other.order)
        limits.append(other.limit)
        kinds.append(other.kind)
    count = len(orders)
    return Plans(
        np.full(count, decision),
        pointers(np.full(count, last - first + 1)),
        np.concatenate(orders),
        np.full(count, last - first + 1),
        pointers(np.full(count, last_job - first_job)),
        np.concatenate(limits),
        np.concatenate(kinds),
    )


def _runners_up(logits: Float32, taken: int, most: int, least: float) -> list[int]:
    """The likeliest entries besides `taken`, in their order."""
    order = np.argsort(-logits, kind="stable")
    share = np.exp(logits - logits.max())
    return [int(one) for one in order if one != taken and share[one] >= least][:most]
