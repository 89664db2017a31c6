"""What the columns of the network should hold, in slow and plain Python, from an observation.

It shares no code with the kernels: the formulas are those of `decima.agent.columns`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from decima.agent.scales import Scales
from spark_sim import Observation


def log2_share(ratio: float) -> float:
    return math.log2(min(4096.0, max(1 / 4096, ratio))) / 4


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


class Oracle:
    """All columns of one decision."""

    def __init__(self, seen: Observation, scales: Scales) -> None:
        self.seen = seen
        self.task_ms, self.work_ms = scales.task_ms, scales.work_ms
        self.size = seen.num_executors
        self.rows = [int(row) for row in seen.active]
        self.share = self.size / max(1, len(self.rows))
        self.remaining_ms = {row: float(seen.jobs["remaining_ms"][row]) for row in self.rows}
        self.typical_ms = max(1.0, float(seen.typical_ms))
        self.classes = [
            (float(one["memory_mb"]), int(one["count"]), int(one["on_offer"]))
            for one in seen.classes
        ]
        self.is_classed = len(self.classes) > 1
        self.open = {row: self._open_stages(row) for row in self.rows}

    def _open_stages(self, row: int) -> list[StageNow]:
        """What may be chosen and has a task without an executor; none if the job has them all."""
        job, found = self.seen.jobs[row], []
        if job["held"] >= self.size:
            return []
        for number in self.stages_of(row):
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
                        self._fits(number),
                        float(stage["memory_mb"]),
                    )
                )
        return found

    def stages_of(self, row: int) -> range:
        """Rows of all stages of a job."""
        job = self.seen.jobs[row]
        first = int(job["first_stage"])
        return range(first, first + int(job["num_stages"]))

    def _fits(self, number: int) -> list[int]:
        """Classes that can hold a task of a stage."""
        return [kind for kind in range(30) if int(self.seen.stages["fits"][number]) >> kind & 1]

    def scarce(self, number: int) -> float:
        """The part of the executors that cannot hold a task of a stage."""
        if not self.is_classed:
            return 0.0
        return 1 - sum(self.classes[kind][1] for kind in self._fits(number)) / self.size

    def node(self, number: int) -> dict[str, float]:
        """Columns of any stage, for the messages."""
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
            "scarce": self.scarce(number),
        }

    def job(self, row: int) -> dict[str, float]:
        """Columns of a job."""
        job = self.seen.jobs[row]
        held = int(job["held"])
        left_ms = self.remaining_ms[row]
        mean_ms = sum(max(0.0, one) for one in self.remaining_ms.values()) / len(self.rows)
        wanted = sum(stage.demand for stage in self.open[row])
        others = [one for other, one in self.remaining_ms.items() if other != row]
        longest_ms = max((stage.path_ms for stage in self.open[row]), default=0.0)
        longest_ms = max(longest_ms, 1e-3)
        return {
            "held": held / self.size,
            "share": log2_share((held + 0.5) / self.share),
            "idle": float(held == 0),
            "local": int(job["local"]) / self.seen.on_offer,
            "source": float(row == self.seen.source_job),
            "remaining": log2_share(left_ms / self.work_ms),
            "relative": log2_share(left_ms / mean_ms) if mean_ms > 0 else -3.0,
            "shorter": sum(one < left_ms for one in others) / max(1, len(others)),
            "undone": left_ms / float(job["work_ms"]),
            "age": self.age(row),
            "wanted": math.log(1 + wanted / self.size),
            "typical": log2_share(left_ms / self.typical_ms),
            "width": log2_share(left_ms / longest_ms / self.share),
            **self.leading(row),
        }

    def leading(self, row: int) -> dict[str, float]:
        """Columns of the stage that heuristics choose in a job."""
        names = ("runnable", "moving", "waves", "blocking", "wait")
        if not self.open[row]:
            return {f"leading {name}": 0.0 for name in names}
        chosen = max(self.open[row], key=lambda one: (one.runnable, one.path_ms, -one.row))
        own = self.stage(row, chosen)
        return {f"leading {name}": own[name] for name in names}

    def age(self, row: int) -> float:
        waited_ms = self.seen.time_ms - float(self.seen.jobs["arrival_ms"][row])
        return math.log(1 + waited_ms * self.size / self.work_ms) / 4

    def stage(self, row: int, stage: StageNow) -> dict[str, float]:
        """Columns of a stage that may be chosen, of the job in `row`."""
        left_ms = self.remaining_ms[row]
        longest_ms = max(one.path_ms for one in self.open[row])
        return {
            "demand": math.log(1 + 4 * stage.demand / self.size),
            "covering": min(1.0, stage.demand / self.seen.on_offer),
            "runnable": float(stage.runnable),
            "duration": log2_share(stage.duration_ms / self.task_ms),
            "path": math.log(1 + stage.path_ms / (4 * self.task_ms)) / 4,
            "critical": stage.path_ms / longest_ms,
            "part": min(1.0, stage.demand * stage.duration_ms / left_ms) if left_ms > 0 else 1.0,
            "moving": math.log(1 + self.seen.moving_delay_ms / stage.duration_ms) / 4,
            "waves": log2_share(stage.demand / self.share),
            "blocking": log2_share(stage.duration_ms * self.size / self.typical_ms),
            "wait": math.log(1 + self.wait_ms(row, stage) / stage.duration_ms) / 4,
            "scarce": self.scarce(stage.row),
            "need": stage.need_mb / self.classes[-1][0] if self.is_classed else 0.0,
        }

    def wait_ms(self, row: int, stage: StageNow) -> float:
        """Longest mean task of what runs before a stage that is not runnable."""
        every = [self.seen.stages[number] for number in self.stages_of(row)]
        before = [
            float(one["mean_ms"])
            for one in every
            if one["runnable"]
            and one["finished"] < one["num_tasks"]
            and one["critical_path_ms"] > stage.path_ms
        ]
        return 0.0 if stage.runnable else max(before, default=0.0)

    def class_rows(self, stage: StageNow) -> dict[int, dict[str, float]]:
        """By the classes that a stage may be given; none where there is one class."""
        if not self.is_classed:
            return {}
        on_offer = [kind for kind in stage.fits if self.classes[kind][2] > 0]
        return {
            kind: {
                "size": self.classes[kind][0] / self.classes[-1][0],
                "filled": stage.need_mb / self.classes[kind][0],
                "on_offer": self.classes[kind][2] / self.size,
                "free": self.classes[kind][2] / self.classes[kind][1],
                "count": self.classes[kind][1] / self.size,
                "larger": float(kind > stage.fits[0]),
                "smallest": float(kind == on_offer[0]),
            }
            for kind in on_offer
        }

    def cluster(self) -> dict[str, float]:
        """Columns of the cluster."""
        count = len(self.rows)
        ages = [self.age(row) for row in self.rows]
        durations = [
            log2_share(stage.duration_ms / self.task_ms)
            for stages in self.open.values()
            for stage in stages
        ]
        total_ms = sum(max(0.0, one) for one in self.remaining_ms.values())
        quiet_ms = self.seen.time_ms - self.seen.last_arrival_ms
        delay_ms = self.seen.moving_delay_ms
        return {
            "on_offer": self.seen.on_offer / self.size,
            "offered": log2_share(self.seen.on_offer),
            "jobs": log2_share(count / self.size) + 0.5,
            "count": log2_share(count),
            "load": log2_share(1 / 16 + total_ms / self.work_ms),
            "typical": log2_share(total_ms / count / self.typical_ms),
            "working": sum(int(self.seen.jobs["held"][row]) for row in self.rows) / self.size,
            "session": float(self.seen.protocol == 1),
            "holding": float(self.seen.protocol == 2),
            "executors": log2_share(self.size / 50),
            "moving": math.log(1 + delay_ms / self.task_ms) / 4,
            "move": log2_share(delay_ms / self.typical_ms),
            "quiet": math.log(1 + quiet_ms * self.size / self.work_ms) / 4,
            "gap": log2_share(self.seen.mean_gap_ms * self.size / self.work_ms),
            "age": sum(ages) / max(1, count),
            "ages": spread(ages),
            "durations": spread(durations),
            "inflation": self.seen.inflation,
        }

    # --- limits ----------------------------------------------------------------------------------

    def limits(self, row: int) -> dict[int, dict[str, float]]:
        """By the parallelism limit; none where the job has no stage that may be chosen."""
        job = self.seen.jobs[row]
        held, wanted = int(job["held"]), sum(stage.demand for stage in self.open[row])
        offered = self.seen.on_offer
        return {
            held + one: {
                "limit": (held + one) / self.size,
                "share": log2_share((held + one) / self.share),
                "added": one / self.size,
                "count": log2_share(one),
                "moved": max(0, one - int(job["local"])) / one,
                "covering": min(1.0, one / wanted),
                "waves": log2_share(wanted / one),
                "left": (offered - one) / offered,
                "free": (offered - one) / self.size,
            }
            for one in self.added(row)
        }

    def added(self, row: int) -> list[int]:
        """How many executors a job may be given, ascending."""
        held = int(self.seen.jobs["held"][row])
        demands = [stage.demand for stage in self.open[row]]
        local = int(self.seen.jobs["local"][row]) if len(self.seen.classes) > 1 else 0
        usable = sum(demands) + (local if demands else 0)
        room = min(usable, self.seen.on_offer, self.size - held)
        share = math.ceil(self.share)
        every = {*demands, sum(demands), room}
        wanted = {math.ceil(share / 2) - held, share - held, 2 * share - held, *every}
        found: list[int] = []
        while room > 0 and found[-1:] != [room]:
            found.append(self._next(found[-1] if found else 0, room, wanted))
        return found

    @staticmethod
    def _next(added: int, room: int, wanted: set[int]) -> int:
        """One more up to 8, then a quarter of the octave more; sooner for what is wanted."""
        step = 1 if added < 8 else 2 ** int(math.log2(added)) // 4
        return min(room, added + step, *(one for one in wanted if one > added), room)
