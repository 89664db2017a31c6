"""Effect of other demands of tasks (`--task-cpus`, `--gpus`) on the recorded policy."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from decima.policies import networks_of
from decima.rl.statistics import difference_percent, mean_of
from decima.whatif.load import recorded_slots, varying_slots
from decima.whatif.replay import Recording, ReplayWorkload
from decima.whatif.replay.check import session_cluster
from decima.whatif.replay.demands import Demands
from decima.whatif.settings import WhatIfSettings
from decima.whatif.text import figure, percent
from spark_sim import Allocation, Slots, Streams
from traces.files.names import counted
from traces.numbers import Float64


class Played(NamedTuple):
    """The recorded jobs, simulated."""

    slots: int
    """at most at once"""
    avg_jct_s: Float64
    """(draws,)"""
    makespan_s: Float64
    """(draws,) from the first submission to the last end"""


class DemandsEffect(NamedTuple):
    """The recorded policy under recorded and under other demands, in the same draws."""

    demands: Demands
    before: Played
    after: Played

    def words(self) -> str:
        before, after = self.before, self.after
        times = [
            f"{label} {figure(mean_of(was))} -> {figure(mean_of(now))} "
            f"({percent(difference_percent(now, was))})"
            for label, was, now in (
                ("average JCT", before.avg_jct_s, after.avg_jct_s),
                ("all jobs", before.makespan_s, after.makespan_s),
            )
        ]
        return (
            f"With {self.demands.words()}: {counted(after.slots, 'slot')} instead of "
            f"{before.slots:,}, {', '.join(times)}. Tasks take as long as recorded. What follows "
            "is on these slots."
        )

    def to_json(self) -> dict[str, Any]:
        return {
            **self.demands._asdict(),
            **{
                label: {
                    "slots": played.slots,
                    "avg_jct_s": played.avg_jct_s.tolist(),
                    "makespan_s": played.makespan_s.tolist(),
                }
                for label, played in (("before", self.before), ("after", self.after))
            },
        }


def demands_effect(
    recording: Recording, demands: Demands, settings: WhatIfSettings, *, driver_times: bool
) -> DemandsEffect:
    """Simulate a recording with other `demands`, and as it was before, under the reference."""
    assert recording.before is not None  # noqa: S101 - read with demands
    before, after = (
        _played(each, settings, driver_times=driver_times) for each in (recording.before, recording)
    )
    return DemandsEffect(demands, before, after)


def _played(recording: Recording, settings: WhatIfSettings, *, driver_times: bool) -> Played:
    workload = ReplayWorkload.of(recording, driver_times=driver_times)
    slots: Slots | Allocation | None = varying_slots(recording)
    most = recorded_slots(recording)
    if settings.allocation is not None:
        model = recording.allocation(0, settings.allocation)
        slots, most = model, most if model is None else model.slots
    networks = networks_of([settings.reference])
    avg_jct_s, makespan_s = np.empty(settings.draws), np.empty(settings.draws)
    course, cluster = workload.recorded(slots), session_cluster(most)
    for draw in range(settings.draws):
        key = Streams(settings.seed, 0, draw).duration_key()
        simulator = workload.played(cluster, settings.reference, course, key, networks=networks)
        jct_s = workload.jct_of(course, simulator.state)
        avg_jct_s[draw] = jct_s.mean()
        makespan_s[draw] = workload.makespan_s(simulator.state, jct_s)
    return Played(most, avg_jct_s, makespan_s)
