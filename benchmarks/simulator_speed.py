"""Task events per CPU second of the simulator, and how the cost of an event grows.

    python -m benchmarks.simulator_speed [TRACE] [--arrivals decima-sim]

Per CPU second on two shared cores: decima-sim's environment 85,000 task events, spark-sched-sim's
20,000 (both without a policy). Here policy and set-up of each run are included. With decima-sim's
TPC-H folder as TRACE the setting is theirs: 50 executors, 201 jobs, 25 s mean gap.
"""

from __future__ import annotations

import argparse
import resource
import time
from dataclasses import dataclass, replace

from decima import EvaluationConfig, Heuristic
from decima.evaluation.runner import Workload, simulate

PEER_EVENTS_PER_S = 85_000


@dataclass(frozen=True)
class Speed:
    events: int
    decisions: int
    cpu_s: float
    policy_s: float

    @property
    def events_per_s(self) -> float:
        return self.events / self.cpu_s


def measure(workload: Workload, config: EvaluationConfig, policy: str) -> Speed:
    """The mean over the sequences of `config`; the kernels are compiled beforehand."""
    simulate(workload, replace(config, jobs=2), Heuristic(policy), 0)
    began = time.process_time()
    runs = [simulate(workload, config, Heuristic(policy), n) for n in range(config.sequences)]
    spent_s = time.process_time() - began
    return Speed(
        sum(run.metrics.task_events for run in runs),
        sum(run.metrics.decisions for run in runs),
        spent_s,
        sum(run.policy_cpu_s for run in runs),
    )


def row(label: str, speed: Speed, base: Speed | None) -> None:
    cost_ns = 1e9 / speed.events_per_s
    ratio = "" if base is None else f"{base.events_per_s / speed.events_per_s:.2f}x"
    memory_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{label:34} {speed.events_per_s / 1e6:7.2f} M/s {cost_ns:7.0f} ns {ratio:>7} "
        f"{speed.decisions:9,} decisions {100 * speed.policy_s / speed.cpu_s:4.0f} % policy "
        f"{memory_mb:6.0f} MB"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trace", nargs="?", default="tpch-like")
    parser.add_argument("--arrivals", default="poisson")
    arguments = parser.parse_args()
    workload = Workload.load(arguments.trace)
    config = EvaluationConfig(trace=arguments.trace, arrivals=arguments.arrivals)
    base = measure(workload, config, "strict_fair")
    print(f"peak memory is of the process so far; decima-sim: {PEER_EVENTS_PER_S:,} events/s")
    row("strict fair, 50 executors, 200 jobs", base, None)
    print(f"{base.events_per_s / PEER_EVENTS_PER_S:.0f} times decima-sim's environment")
    for protocol in ("session", "decima-sim"):
        row(
            f"  {protocol}",
            measure(workload, replace(config, protocol=protocol), "strict_fair"),
            base,
        )
    for policy in ("fifo", "sticky_fair", "spark_fair", "tuned_srw"):
        row(f"  {policy}", measure(workload, config, policy), base)
    print("cost of an event (classes of executors; the second against the first)")
    sized = replace(config, classes="1x50", demands="drawn", interarrival_s=40.0)
    alone = None
    for label, classes in (("one", "1x50"), ("four", "0.25x12,0.5x12,0.75x13,1x13")):
        setting = replace(sized, classes=classes)
        speed = measure(Workload.of(setting), setting, "strict_fair")
        row(f"  {label}, 40 s gap", speed, alone)
        alone = speed
    print("cost of an event (executors and arrival rate grow together: the load stays)")
    for executors in (50, 500, 5_000):
        scale = executors // 50
        wider = replace(
            config,
            executors=executors,
            jobs=200 * scale,
            interarrival_s=25.0 / scale,
            sequences=max(1, 10 // scale),
        )
        row(
            f"  {executors:,} executors, {200 * scale:,} jobs",
            measure(workload, wider, "strict_fair"),
            base,
        )
    for executors in (500, 5_000):
        wider = replace(config, executors=executors)
        row(f"  {executors:,} executors, 200 jobs", measure(workload, wider, "strict_fair"), base)
    for jobs in (2_000, 20_000):
        longer = replace(config, jobs=jobs, sequences=1)
        row(f"  50 executors, {jobs:,} jobs", measure(workload, longer, "strict_fair"), base)


if __name__ == "__main__":
    main()
