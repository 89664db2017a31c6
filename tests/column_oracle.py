"""What the columns of the network should hold, in slow and plain Python, from an observation.

It shares no code with the kernels: the formulas are those of `decima.agent.columns`, and the
scoring rule is asked for one choice after the other, with every job judged anew each time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from decima import HEURISTICS
from decima.agent.scales import Scales
from decima.heuristics.es_classes import CLASS_PARAMETERS, CLASS_WORLDS
from decima.heuristics.es_rule import PARAMETERS
from spark_sim import Observation

RULED = {"gate", "score", "given", "planned", "place", "ruled", "off"}
"""columns that tell of the rule"""

SHIPPED = HEURISTICS["es_classes"].defaults
TROUBLE, PACKING, LARGE_FIRST = (SHIPPED[name] for name in CLASS_PARAMETERS)


def rule_numbers(weights: Mapping[str, float]) -> NDArray[np.float64]:
    """Of the shipped numbers for classes and one rule for every world, as the network holds it."""
    rule = [weights[name] for name in PARAMETERS]
    return np.array([TROUBLE, PACKING, LARGE_FIRST, *rule * len(CLASS_WORLDS), *rule])


def log2_share(ratio: float) -> float:
    return math.log2(min(4096.0, max(1 / 4096, ratio))) / 4


def squashed(value: float) -> float:
    return value / (1 + abs(value))


def spread(values: list[float]) -> float:
    return float(np.std(values)) if values else 0.0


@dataclass
class StageNow:
    """A stage that may be chosen."""

    row: int
    demand: int
    duration_ms: float
    path_ms: float
    runnable: bool
    fits: list[int]
    """classes that can hold a task, small ones first"""
    need_mb: float


@dataclass
class JobNow:
    """A job in the middle of a round."""

    row: int
    held: int
    local: int
    remaining_ms: float
    less: int
    stages: list[StageNow]
    given: int = 0


@dataclass
class RulePlan:
    """What the rule would choose in a round."""

    order: list[tuple[int, int]] = field(default_factory=list)
    """stages, and the limits of their jobs"""
    given: dict[int, int] = field(default_factory=dict)
    """executors for each job, by row"""
    kinds: dict[int, int] = field(default_factory=dict)
    """the class for each stage in the order"""


class Oracle:
    """All columns of one decision."""

    def __init__(self, seen: Observation, scales: Scales, weights: dict[str, float]) -> None:
        self.seen = seen
        self.task_ms, self.work_ms = scales.task_ms, scales.work_ms
        self.weights = np.array([weights[name] for name in PARAMETERS])
        self.size = seen.num_executors
        self.rows = [int(row) for row in seen.active]
        self.remaining_ms = {row: float(seen.jobs["remaining_ms"][row]) for row in self.rows}
        self.classes = [
            (float(one["memory_mb"]), int(one["count"]), int(one["on_offer"]))
            for one in seen.classes
        ]
        self.is_classed = len(self.classes) > 1
        self.open = {row: self._open_stages(row) for row in self.rows}
        self.plan = self.rule_plan()

    def _open_stages(self, row: int) -> list[StageNow]:
        """What may be chosen and has a task without an executor; none if the job has them all."""
        job, found = self.seen.jobs[row], []
        if job["held"] >= self.size:
            return []
        for number in range(job["first_stage"], job["first_stage"] + job["num_stages"]):
            stage = self.seen.stages[number]
            demand = int(stage["num_tasks"]) - int(stage["covered"])
            if stage["open"] == 1 and demand > 0:
                found.append(
                    StageNow(
                        number,
                        demand,
                        float(stage["mean_ms"]),
                        float(stage["critical_path_ms"]),
                        bool(stage["runnable"]),
                        [kind for kind in range(30) if int(stage["fits"]) >> kind & 1],
                        float(stage["memory_mb"]),
                    )
                )
        return found

    # --- the rule --------------------------------------------------------------------------------

    def jobs_now(self) -> list[JobNow]:
        jobs = self.seen.jobs
        return [
            JobNow(
                row,
                int(jobs["held"][row]),
                int(jobs["local"][row]),
                self.remaining_ms[row],
                sum(other < self.remaining_ms[row] for other in self.remaining_ms.values()),
                list(self.open[row]),
            )
            for row in self.rows
        ]

    def judged(self, job: JobNow, stage: StageNow, left: int, more: int = 0) -> tuple[float, float]:
        """Gate and score of the executor after `more` for the stage."""
        share = self.size / len(self.rows)
        mean_ms = sum(self.remaining_ms.values()) / len(self.rows)
        held = job.held + more + 1
        quiet_ms = (self.seen.time_ms - self.seen.last_arrival_ms) * self.size

        def log_ratio(amount: float, reference: float) -> float:
            return math.log(max(0.01, amount / reference)) if reference > 0 else 0.0

        inputs = [
            0.5 * log_ratio(job.remaining_ms, mean_ms),
            2 * job.less / len(self.rows) - 1,
            math.log(held / share),
            held / self.size,
            max(0, job.local - more) / (left - more),
            float(job.row == self.seen.source_job),
            0.5 * math.log(max(1, stage.demand - more) / share),
            1 + 0.5 * math.log(len(self.rows) / self.size),
            0.5 * log_ratio(job.remaining_ms, stage.path_ms * share),
            float(stage.runnable),
            float(self.seen.protocol == 1),
            0.5 * log_ratio(self.seen.moving_delay_ms, stage.duration_ms),
            0.5 * math.log(self.size / 50),
            0.25 * log_ratio(quiet_ms, mean_ms),
            0.25 * log_ratio(stage.duration_ms * self.size, self.seen.typical_ms),
            2 * self.seen.inflation,
            0.5 * math.log(1 + self.wait(job, stage)),
            (left - more - 1) / self.size,
        ]
        units = self.weights[:-1].reshape(-1, len(inputs) + 3)
        sums = np.clip(units[:, :-3] @ inputs + units[:, -3], -3.0, 3.0)
        active = sums * (27 + sums**2) / (27 + 9 * sums**2)
        return float(self.weights[-1] + units[:, -2] @ active), float(units[:, -1] @ active)

    def wait(self, job: JobNow, stage: StageNow) -> float:
        """Of the tasks under way before a stage the longest, in moving delays; up to 100."""
        every = self.seen.stages[self.seen.stages["job"] == job.row]
        before = every[
            (every["runnable"] == 1)
            & (every["finished"] < every["num_tasks"])
            & (every["critical_path_ms"] > stage.path_ms)
        ]
        if stage.runnable or len(before) == 0 or self.seen.protocol != 0:
            return 0.0
        delay_ms = self.seen.moving_delay_ms
        longest_ms = float(before["mean_ms"].max())
        return min(100.0, longest_ms / delay_ms) if delay_ms > 0 else 100.0

    def scarce(self, fits: list[int]) -> float:
        """The part of the executors that cannot hold a task of a stage."""
        return 1 - sum(self.classes[kind][1] for kind in fits) / self.size

    def candidate(self, job: JobNow, offered: list[int]) -> StageNow | None:
        """Runnable ones first, then the longest path, then the first; scarce hosts lengthen it."""
        stages = job.stages
        if self.is_classed:
            stages = [one for one in stages if any(offered[kind] for kind in one.fits)]
        if not stages:
            return None
        if self.is_classed:
            return max(
                stages,
                key=lambda one: (
                    one.runnable,
                    math.log(max(1, one.path_ms)) + TROUBLE * self.scarce(one.fits),
                    -one.row,
                ),
            )
        return max(stages, key=lambda one: (one.runnable, one.path_ms, -one.row))

    def kind(self, stage: StageNow, offered: list[int]) -> int | None:
        """The smallest class on offer that can hold its tasks, or the largest; None: no class."""
        hosts = [kind for kind in stage.fits if offered[kind] > 0]
        mean_ms = sum(self.remaining_ms.values()) / len(self.remaining_ms)
        is_large_first = mean_ms < LARGE_FIRST * max(1.0, float(self.seen.typical_ms))
        return None if not hosts else hosts[-1 if is_large_first else 0]

    def bonus(self, stage: StageNow, kind: int) -> float:
        largest_mb = self.classes[-1][0]
        return PACKING * (stage.need_mb / largest_mb) * (self.classes[kind][0] / largest_mb)

    def rule_plan(self) -> RulePlan:
        """Choice after choice, as the rule is asked, as if no choice opened a stage."""
        jobs, left = self.jobs_now(), self.seen.on_offer
        offered = [on_offer for _, _, on_offer in self.classes]
        found = RulePlan(given=dict.fromkeys(self.rows, 0))
        while left > 0:
            scored = []
            for job in jobs:
                stage = self.candidate(job, offered) if job.held < self.size else None
                kind = 0 if stage is None or not self.is_classed else self.kind(stage, offered)
                if stage is None or kind is None:
                    continue
                gate, score = self.judged(job, stage, left)
                # decima-sim counts executors on offer as held.
                own = self.seen.jobs[job.row]["local"] if self.seen.protocol == 2 else 0
                if gate > 0 or (found.given[job.row] == 0 and job.held <= own):
                    more = self.bonus(stage, kind) if self.is_classed else 0.0
                    scored.append((score + more, job, stage, kind, more))
            if not scored:
                break
            _, job, stage, kind, more = max(scored, key=lambda one: one[0])
            second = max((one[0] for one in scored if one[1] is not job), default=-math.inf) - more
            most = min(left, stage.demand, self.size - job.held)
            count = 1
            while count < most:
                gate, score = self.judged(job, stage, left, count)
                if gate <= 0 or score <= second:
                    break
                count += 1
            job.held += count
            job.local -= min(count, job.local)
            job.given += count
            job.stages.remove(stage)
            found.order.append((stage.row, job.held))
            found.given[job.row] = job.given
            found.kinds[stage.row] = kind
            has = min(count, offered[kind]) if self.is_classed else count
            offered[kind] -= has
            left -= has
            if has < count:
                break
        return found

    # --- columns ---------------------------------------------------------------------------------

    def node(self, number: int) -> dict[str, float]:
        """Of any stage."""
        stage = self.seen.stages[number]
        left = int(stage["num_tasks"]) - int(stage["launched"])
        left = 2.0 ** (round(4 * math.log2(left + 1)) / 4) - 1
        duration_ms = float(stage["mean_ms"])
        return {
            "left": math.log(1 + 4 * left / self.size),
            "duration": log2_share(duration_ms / self.task_ms),
            "working": (int(stage["covered"]) - int(stage["finished"])) / self.size,
            "work": math.log(1 + 8 * left * duration_ms / self.work_ms),
            "runnable": float(stage["runnable"]),
            "scarce": self.scarce([kind for kind in range(30) if int(stage["fits"]) >> kind & 1])
            if self.is_classed
            else 0.0,
        }

    def job(self, row: int) -> dict[str, float]:
        job, count = self.seen.jobs[row], len(self.rows)
        held = int(job["held"])
        left_ms = self.remaining_ms[row]
        total_ms = sum(max(0.0, one) for one in self.remaining_ms.values())
        wanted = sum(stage.demand for stage in self.open[row])
        gate, score = self.first_judgement(row)
        best = max(
            (self.first_judgement(other)[1] for other in self.rows if self.open[other]), default=0.0
        )
        others = [one for other, one in self.remaining_ms.items() if other != row]
        return {
            "held": held / self.size,
            "share": log2_share((held + 0.5) / (self.size / count)),
            "idle": float(held == 0),
            "local": int(job["local"]) / self.seen.on_offer,
            "source": float(row == self.seen.source_job),
            "remaining": log2_share(left_ms / self.work_ms),
            "relative": log2_share(left_ms / (total_ms / count)) if total_ms > 0 else -3.0,
            "shorter": sum(one < left_ms for one in others) / max(1, len(others)),
            "undone": left_ms / float(job["work_ms"]),
            "age": self.age(row),
            "wanted": math.log(1 + wanted / self.size),
            "gate": squashed(gate) if self.open[row] else 0.0,
            "score": squashed(score - best) if self.open[row] else 0.0,
            "given": self.plan.given[row] / self.size,
            "giant": log2_share(left_ms / self.seen.typical_ms),
        }

    def first_judgement(self, row: int) -> tuple[float, float]:
        """Gate and score of the job's first executor in this round."""
        job = next(one for one in self.jobs_now() if one.row == row)
        stage = self.candidate(job, [on_offer for _, _, on_offer in self.classes])
        return (0.0, 0.0) if stage is None else self.judged(job, stage, self.seen.on_offer)

    def age(self, row: int) -> float:
        waited_ms = self.seen.time_ms - float(self.seen.jobs["arrival_ms"][row])
        return math.log(1 + waited_ms * self.size / self.work_ms) / 4

    def stage(self, row: int, stage: StageNow) -> dict[str, float]:
        """Of a stage that may be chosen, of the job in `row`."""
        chosen = [number for number, _ in self.plan.order]
        place = chosen.index(stage.row) if stage.row in chosen else len(chosen)
        left_ms = self.remaining_ms[row]
        return {
            "demand": math.log(1 + 4 * stage.demand / self.size),
            "covering": min(1.0, stage.demand / self.seen.on_offer),
            "runnable": float(stage.runnable),
            "duration": log2_share(stage.duration_ms / self.task_ms),
            "path": math.log(1 + stage.path_ms / (4 * self.task_ms)) / 4,
            "part": min(1.0, stage.demand * stage.duration_ms / left_ms) if left_ms > 0 else 1.0,
            "moving": math.log(1 + self.seen.moving_delay_ms / stage.duration_ms) / 4,
            "planned": float(stage.row in chosen),
            "place": math.log(1 + place) / 4,
            "scarce": self.scarce(stage.fits) if self.is_classed else 0.0,
            "need": stage.need_mb / self.classes[-1][0] if self.is_classed else 0.0,
        }

    def class_rows(self, stage: StageNow) -> dict[int, dict[str, float]]:
        """By the classes that a stage may be given; none where there is one class."""
        if not self.is_classed:
            return {}
        offered = [on_offer for _, _, on_offer in self.classes]
        ruled = self.plan.kinds.get(stage.row, self.kind(stage, offered))
        return {
            kind: {
                "size": self.classes[kind][0] / self.classes[-1][0],
                "filled": stage.need_mb / self.classes[kind][0],
                "on_offer": offered[kind] / self.size,
                "free": offered[kind] / self.classes[kind][1],
                "count": self.classes[kind][1] / self.size,
                "larger": float(kind > stage.fits[0]),
                "ruled": float(kind == ruled),
            }
            for kind in stage.fits
            if offered[kind] > 0
        }

    def cluster(self) -> dict[str, float]:
        count = len(self.rows)
        ages = [self.age(row) for row in self.rows]
        durations = [
            log2_share(stage.duration_ms / self.task_ms)
            for stages in self.open.values()
            for stage in stages
        ]
        total_ms = sum(max(0.0, one) for one in self.remaining_ms.values())
        quiet_ms = self.seen.time_ms - self.seen.last_arrival_ms
        return {
            "on_offer": self.seen.on_offer / self.size,
            "jobs": log2_share(count / self.size) + 0.5,
            "count": log2_share(count),
            "load": log2_share(1 / 16 + total_ms / self.work_ms),
            "working": sum(int(self.seen.jobs["held"][row]) for row in self.rows) / self.size,
            "planned": math.log(1 + len(self.plan.order)) / 4,
            "session": float(self.seen.protocol == 1),
            "executors": log2_share(self.size / 50),
            "moving": math.log(1 + self.seen.moving_delay_ms / self.task_ms) / 4,
            "quiet": math.log(1 + quiet_ms * self.size / self.work_ms) / 4,
            "age": sum(ages) / max(1, count),
            "ages": spread(ages),
            "durations": spread(durations),
            "inflation": self.seen.inflation,
        }

    def limits(self, row: int) -> dict[int, dict[str, float]]:
        """By the parallelism limit; none where the job has no stage that may be chosen."""
        job = self.seen.jobs[row]
        held, wanted = int(job["held"]), sum(stage.demand for stage in self.open[row])
        room = min(wanted, self.seen.on_offer, self.size - held)
        if room == 0:
            return {}
        ruled = min(room, self.plan.given[row])
        steps = {2**power for power in range(12)} | {3 * 2**power for power in range(12)}
        added = {one for one in steps if one < room} | {room} | ({ruled} - {0})
        return {
            held + one: {
                "limit": (held + one) / self.size,
                "share": log2_share((held + one) / (self.size / len(self.rows))),
                "added": one / self.size,
                "moved": max(0, one - int(job["local"])) / one,
                "covering": one / wanted,
                "ruled": float(one == ruled),
                "off": log2_share(one / max(1, ruled)),
            }
            for one in sorted(added)
        }
