"""Cost of a task event as clusters grow, at constant load per slot.

    python -m benchmarks.growth [--slots 50,500,5000] [--policies spark_fair,es_rule]
        [--protocols quiet,executors] [--minutes 20] [--runs 3]

`tpch` jobs arrive at a load of 0.7 for `--minutes` of simulated time; then the run is cut. One
line for each protocol, policy and number of slots: CPU nanoseconds for each task event, of the
fastest of `--runs`, that over the smallest cluster's, choices for each event, and the mean number
of jobs in the system. The policy's own time is included. `quiet` is a session without
`Cluster.ask_while_idle`.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

from decima.evaluation.config import gap_at
from decima.registry import Heuristic
from spark_sim import Cluster, Protocol, Simulator, Streams
from spark_sim.tables import State
from traces import Trace, load_trace, to_arrays
from traces.arrivals import poisson
from traces.numbers import MS_PER_S, S_PER_MINUTE

LOAD, SEED = 0.7, 3
CLUSTERS = {
    "executors": Cluster(),
    "session": Cluster(protocol=Protocol.SESSION),
    "quiet": Cluster(protocol=Protocol.SESSION, ask_while_idle=False),
}


def run(trace: Trace, policy: str, cluster: Cluster) -> tuple[float, State]:
    """CPU seconds of a run up to the cluster's time limit, and its state at the end."""
    end_ms = cluster.time_limit_ms or 0.0
    gap_ms = MS_PER_S * gap_at(trace.name, cluster.num_executors, LOAD)
    streams = Streams(SEED, 0)
    drawn = poisson(trace, round(end_ms / gap_ms) + 1, gap_ms, streams.arrivals())
    key = streams.duration_key()
    simulator = Simulator(to_arrays(trace), cluster, drawn.arrival_ms, drawn.job, duration_key=key)
    heuristic = Heuristic(policy)
    began_s = time.process_time()
    heuristic.play(simulator)
    return time.process_time() - began_s, simulator.state


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--slots", default="50,500,5000")
    parser.add_argument("--policies", default="fifo,strict_fair,spark_fair,es_rule")
    parser.add_argument("--protocols", default="quiet,executors")
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    trace = load_trace("tpch")
    print(f"{'protocol':10} {'policy':12} {'slots':>6} {'ns':>8} {'ratio':>6} choices   jobs")
    for label in arguments.protocols.split(","):
        for policy in arguments.policies.split(","):
            base_ns = 0.0
            for slots in map(int, arguments.slots.split(",")):
                cluster = replace(
                    CLUSTERS[label],
                    num_executors=slots,
                    time_limit_ms=S_PER_MINUTE * arguments.minutes * MS_PER_S,
                )
                if not base_ns:
                    run(trace, policy, cluster)  # loads the compiled code
                runs = [run(trace, policy, cluster) for _ in range(arguments.runs)]
                clock = runs[0][1].clock[0]
                events = int(clock["task_events"])
                event_ns = 1e9 * min(cpu_s for cpu_s, _ in runs) / events
                base_ns = base_ns or event_ns
                print(
                    f"{label:10} {policy:12} {slots:6} {event_ns:8.0f} {event_ns / base_ns:6.1f} "
                    f"{int(clock['decisions']) / events:7.3f} "
                    f"{float(clock['job_time_ms'] / clock['time_ms']):6.1f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
