"""Two lower bounds on the average JCT of any policy, setting by setting.

    python -m benchmarks.bounds [--trace tpch] [--sequences 20]

``pooled``: all executors as one fast machine without moves, fresh starts or waiting parents, each
task at the least mean duration that the trace knows for its stage, and shortest remaining
processing time first, which is optimal there (Schrage 1968). ``alone``: each job by itself on the
idle cluster, at the number of executors that suits it best. A policy's jobs meet both; the larger
one bounds the average. Neither can be reached where jobs share a cluster, so the distance to them
is what might be left, not what is.
"""

from __future__ import annotations

import argparse
import heapq
from dataclasses import replace

import numpy as np

from decima import EvaluationConfig
from decima.evaluation.runner import Workload, prepare
from decima.registry import Heuristic
from spark_sim import Cluster, Simulator
from spark_sim.metrics import measure
from traces.arrays import TraceArrays
from traces.numbers import Float64

LIMITS = (1, 2, 3, 5, 8, 12, 16, 20, 25, 30, 35, 40, 50)
DRAWS = 5
"""task durations that a job alone is measured with"""


def least_work_s(trace: TraceArrays) -> Float64:
    """(J,) executor-seconds of each job at the least mean duration of each stage's tasks."""
    least_ms = np.minimum.reduceat(trace.wave_mean_ms.min(axis=1), trace.first_level[:-1])
    return np.add.reduceat(trace.num_tasks * least_ms, trace.first_stage[:-1]) / 1000


def alone_s(trace: TraceArrays, executors: int) -> Float64:
    """(J,) JCT of each job alone, at the best of several numbers of executors."""
    best = np.full(trace.num_jobs, np.inf)
    for limit in (one for one in LIMITS if one <= executors):
        cluster = Cluster(num_executors=limit)
        for job in range(trace.num_jobs):
            total_ms = 0.0
            for key in range(DRAWS):
                simulator = Simulator(
                    trace, cluster, np.zeros(1), np.array([job], np.int32), duration_key=key
                )
                Heuristic("strict_fair").play(simulator)
                total_ms += simulator.time_ms
            best[job] = min(best[job], total_ms / DRAWS / 1000)
    return best


def pooled_s(arrival_s: Float64, work_s: Float64, executors: int) -> float:
    """Average JCT by shortest remaining processing time on one machine, `executors` times fast."""
    waiting: list[tuple[float, float]] = []
    now = total = 0.0
    arrivals = list(zip(arrival_s.tolist(), (work_s / executors).tolist(), strict=True))
    index = 0
    while index < len(arrivals) or waiting:
        if not waiting:
            now = max(now, arrivals[index][0])
        while index < len(arrivals) and arrivals[index][0] <= now:
            heapq.heappush(waiting, (arrivals[index][1], arrivals[index][0]))
            index += 1
        left, arrival = heapq.heappop(waiting)
        following = arrivals[index][0] if index < len(arrivals) else np.inf
        if now + left <= following:
            now += left
            total += now - arrival
        else:
            heapq.heappush(waiting, (left - (following - now), arrival))
            now = following
    return total / len(arrivals)


def main() -> None:
    """Print a line for each setting."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--trace", default="tpch")
    parser.add_argument("--sequences", type=int, default=20)
    given = parser.parse_args()
    base = EvaluationConfig(trace=given.trace, sequences=given.sequences, jobs=200)
    workload = Workload.load(given.trace)
    work_s = least_work_s(workload.arrays)
    own_s = alone_s(workload.arrays, base.executors)
    print(f"{'setting':14}{'strict_fair':>13}{'es_rule':>10}{'pooled':>9}{'alone':>8}"
          f"{'bound vs strict_fair':>22}")  # fmt: skip
    settings = {f"gap {gap:g} s": replace(base, interarrival_s=gap) for gap in (25.0, 18.0, 15.0)}
    settings["batch of 20"] = replace(base, arrivals="batch", jobs=20)
    for label, config in settings.items():
        rows = []
        for number in range(config.sequences):
            averages = []
            for policy in ("strict_fair", "es_rule"):
                simulator = prepare(workload, config, number)
                Heuristic(policy).play(simulator)
                averages.append(measure(simulator.state).avg_jct_s)
            jobs = simulator.state.jobs
            pooled = pooled_s(jobs["arrival_ms"] / 1000, work_s[jobs["template"]], config.executors)
            rows.append((*averages, pooled, float(own_s[jobs["template"]].mean())))
        strict, rule, pooled, alone = np.mean(rows, axis=0)
        bound = float(np.mean([max(row[2], row[3]) for row in rows]))
        print(f"{label:14}{strict:11.1f} s{rule:8.1f} s{pooled:7.1f} s{alone:6.1f} s"
              f"{100 * (bound / strict - 1):+20.1f} %")  # fmt: skip


if __name__ == "__main__":
    main()
