"""Settings of the coordinator, checked where they are made."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from decima.policies import check_name
from decima.registry import Parameters
from decima.spark.settings import WEIGHTS, AttachError, check_count, check_within
from spark_sim.cluster import MAX_EXECUTORS, MOVING_DELAY_S

SharesOf = Literal["applications", "jobs"]
_EQUAL_SHARES = "strict_fair"
STAND_IN = _EQUAL_SHARES
"""decides where the policy fails"""
_HOUR_S = 3_600.0
_GROUP = re.compile(r"(user|queue)(?::(.+))?")


@dataclass(frozen=True)
class CoordinatorSettings:
    """Settings of the division of one cluster; AttachError or PolicyError for a wrong one."""

    slots: int
    """executors of the cluster, all of one size"""
    policy: str = STAND_IN
    """name of a heuristic, `decima`, or a model file"""
    parameters: Parameters | None = None
    """of a heuristic, in place of its own"""
    shares_of: SharesOf | None = None
    """what weighs the same: each application, or each unfinished job; None: jobs, but for
    `strict_fair` applications"""
    moving_delay_s: float = MOVING_DELAY_S
    """from a request to a registered executor, until that has been measured"""
    wait_s: float = 60.0
    """an application that has work and no executor for so long gets one of another's"""
    idle_s: float = 1.0
    """an application that has run out of work keeps its executors for so long"""
    silence_s: float = 5.0
    """a driver that is silent for so long has died: its share is free"""
    decision_s: float = 0.5
    """a policy may take so long; then strict fair decides"""
    caps: Mapping[str, int] = field(default_factory=dict)
    """most executors by "user" or "queue" (each), "user:NAME" or "queue:NAME" (this one)"""
    weights: Mapping[str, float] = field(default_factory=dict)
    """factors on the weights of applications, by group as in `caps`"""

    def __post_init__(self) -> None:
        check_count("slots", self.slots, 1)
        if self.slots > MAX_EXECUTORS:
            raise AttachError(f"slots must be at most {MAX_EXECUTORS:,}, got {self.slots}")
        check_name(self.policy)
        if self.shares_of not in (None, *get_args(SharesOf)):
            raise AttachError(f"shares_of {self.shares_of!r:.40}: applications or jobs is needed")
        check_within("moving_delay_s", self.moving_delay_s, 0.0, _HOUR_S)
        check_within("wait_s", self.wait_s, 0.1, 7 * 24 * _HOUR_S)
        check_within("idle_s", self.idle_s, 0.0, _HOUR_S)
        check_within("silence_s", self.silence_s, 0.5, _HOUR_S)
        check_within("decision_s", self.decision_s, 0.001, 600.0)
        for group, cap in self.caps.items():
            check_group("cap", group)
            check_count(f"cap {group}", cap, 1)
        for group, weight in self.weights.items():
            if check_group("weight", group) is None:
                raise AttachError(f"weight {group!r}: name one, such as {group}:NAME")
            check_within(f"weight {group}", weight, *WEIGHTS)

    @property
    def counts_jobs(self) -> bool:
        """Whether an application weighs as much as its unfinished jobs together.

        Policies minimise the average JCT of jobs, so an application with more of them comes first
        (Smith's rule); `strict_fair` is fair to applications.
        """
        if self.shares_of is None:
            return self.policy != _EQUAL_SHARES
        return self.shares_of == "jobs"

    def caps_of(self, user: str, queue: str) -> dict[str, int]:
        """Return the caps of an application by the group that shares each."""
        caps = {
            f"{kind}:{name}": self.caps.get(f"{kind}:{name}", self.caps.get(kind))
            for kind, name in (("user", user), ("queue", queue))
            if name
        }
        return {group: cap for group, cap in caps.items() if cap is not None}

    def weight_of(self, weight: float, user: str, queue: str) -> float:
        return (
            weight * self.weights.get(f"user:{user}", 1.0) * self.weights.get(f"queue:{queue}", 1.0)
        )


def check_group(what: str, group: str) -> str | None:
    """Return NAME of "user:NAME"; None for "user", every user. AttachError if it is neither."""
    match = _GROUP.fullmatch(group)
    if match is None:
        raise AttachError(f"{what} {group!r}: groups are user, queue, user:NAME and queue:NAME")
    return match[2]
