"""Cost of an event as clusters grow, at constant load per slot.

    python -m benchmarks.growth [--slots 50,500,5000,20000] [--policies strict_fair,fifo]

`tpch` jobs arrive at a load of 0.7 for twenty minutes of simulated time; then the run is cut. One
line for each protocol, policy and number of slots: CPU nanoseconds for each task event, that over
the smallest cluster's, the jobs in the system at the end, and the process' largest memory so far.
The policy's own time is included. Below, for comparison, a heap of as many finish times as slots:
pop the earliest, push another one.
"""

from __future__ import annotations

import argparse
import heapq
import resource
import time

import numpy as np

from decima.evaluation.settings_file import gap_at
from decima.heuristics.run import run
from decima.registry import Heuristic
from spark_sim import Cluster, Protocol, Simulator, Streams
from spark_sim.tables import State
from traces import Trace, load_trace, to_arrays
from traces.arrays import TraceArrays
from traces.arrivals import poisson
from traces.numbers import MS_PER_S

LOAD, MINUTES, SEED = 0.7, 20.0, 3
POLICIES = ("strict_fair", "spark_fair", "fifo", "es_rule")
SLOTS = (50, 500, 5_000)


def played(
    trace: Trace, arrays: TraceArrays, policy: str, protocol: Protocol, slots: int
) -> tuple[float, State]:
    """CPU seconds of a run, and its state at the end."""
    end_ms = 60.0 * MINUTES * MS_PER_S
    gap_ms = MS_PER_S * gap_at(trace.name, slots, LOAD)
    streams = Streams(SEED, 0)
    drawn = poisson(trace, round(end_ms / gap_ms) + 1, gap_ms, streams.arrivals())
    cluster = Cluster(num_executors=slots, protocol=protocol, time_limit_ms=end_ms)
    key = streams.duration_key()
    simulator = Simulator(arrays, cluster, drawn.arrival_ms, drawn.job, duration_key=key)
    compiled = Heuristic(policy).compiled(arrays, simulator.state.classes)
    began_s = time.process_time()
    run(simulator.state, *compiled, False)
    return time.process_time() - began_s, simulator.state


def heap_ns(slots: int, events: int = 200_000) -> float:
    """CPU nanoseconds of an event of a bare heap in the Python library, which is written in C."""
    rng = np.random.default_rng(0)
    heap, more = rng.random(slots).tolist(), rng.random(events).tolist()
    heapq.heapify(heap)
    began_s = time.process_time()
    for length in more:
        heapq.heapreplace(heap, heap[0] + length)
    return 1e9 * (time.process_time() - began_s) / events


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--slots", default=",".join(map(str, SLOTS)))
    parser.add_argument("--policies", default=",".join(POLICIES))
    arguments = parser.parse_args()
    sizes = [int(size) for size in arguments.slots.split(",")]
    trace = load_trace("tpch")
    arrays = to_arrays(trace)
    print(
        f"{'protocol':10} {'policy':12} {'slots':>6} {'ns':>8} {'ratio':>6} {'jobs':>6} {'MB':>6}"
    )
    for protocol in (Protocol.EXECUTORS, Protocol.SESSION):
        for policy in arguments.policies.split(","):
            played(trace, arrays, policy, protocol, sizes[0])  # loads the compiled code
            first_ns = None
            for slots in sizes:
                cpu_s, state = played(trace, arrays, policy, protocol, slots)
                event_ns = 1e9 * cpu_s / int(state.clock[0]["task_events"])
                first_ns = event_ns if first_ns is None else first_ns
                memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
                print(
                    f"{protocol.label:10} {policy:12} {slots:6} {event_ns:8.0f} "
                    f"{event_ns / first_ns:6.1f} {int(state.clock[0]['num_active']):6} {memory:6}",
                    flush=True,
                )
    for slots in sizes:
        print(f"a bare heap, {slots} slots: {heap_ns(slots):.0f} ns")


if __name__ == "__main__":
    main()
