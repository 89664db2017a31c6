"""Figure 15b: how long the network takes for a scheduling event, and when the next one comes."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from decima.evaluation.runner import Workload, policy_on, prepare
from decima.reproduce.bench import SHORT_JOBS, Bench, stream
from decima.reproduce.comparisons import DECIMA
from decima.rl.drawing import Measured, panels
from spark_sim import Status
from traces.numbers import MS_PER_S, Float64

_MOST = 5000
"""events whose times are stored"""


def figure_15b(bench: Bench) -> dict[str, Any]:
    """CPU time of each scheduling event's decisions, and simulated time to the next event."""
    sized = bench.sized(stream())
    setting = replace(sized, jobs=min(sized.jobs, SHORT_JOBS))
    workload = Workload.of(setting)
    latency_ms, interval_ms = [], []
    for number in range(setting.sequences):
        simulator = prepare(workload, setting, number)
        policy = policy_on(workload, setting, DECIMA, number)
        spent_ms: list[float] = []
        at_ms: list[float] = []
        latest = None
        while simulator.status is Status.DECIDE:
            observation = simulator.observation()
            begun_s = time.thread_time()
            action = policy.decide(observation)
            took_ms = MS_PER_S * (time.thread_time() - begun_s)
            if observation.round_number == latest:
                spent_ms[-1] += took_ms
            else:
                spent_ms.append(took_ms)
                at_ms.append(observation.time_ms)
                latest = observation.round_number
            simulator.step(action)
        latency_ms.append(np.array(spent_ms[:-1]))
        interval_ms.append(np.diff(at_ms))
    latency, interval = np.concatenate(latency_ms), np.concatenate(interval_ms)
    ratio = interval.mean() / latency.mean()
    return {
        "sequences": setting.sequences,
        "jobs": setting.jobs,
        "events": len(latency),
        "latency_ms": _spread(latency),
        "interval_ms": _spread(interval),
        "here": {
            "mean latency of a scheduling event": f"{latency.mean():.2f} ms",
            "interval between scheduling events over latency": f"{ratio:,.0f}",
        },
    }


def _spread(values: Float64) -> list[float]:
    """Return values in order, at most `_MOST` of them, spread evenly."""
    ordered = np.sort(values)
    places = np.linspace(0, len(ordered) - 1, min(_MOST, len(ordered)))
    spread: list[float] = ordered[np.round(places).astype(int)].tolist()
    return spread


def draw_figure_15b(measured: Measured) -> Figure:
    """Distributions of both times."""
    figure, (axes,) = panels(1)
    for name, label in (("latency_ms", "latency"), ("interval_ms", "to the next event")):
        values = measured[name]
        share = np.arange(1, len(values) + 1) / len(values)
        axes.step(np.maximum(values, 1e-2), share, where="post", label=label)
    axes.set(xlabel="ms", ylabel="share of scheduling events", xscale="log")
    axes.legend(frameon=False)
    return figure
