"""Cost of an event as clusters grow, at constant load per slot.

    python -m benchmarks.growth [--slots 50,500,5000,20000] [--policies strict_fair,fifo]
        [--protocols executors,classes]

`tpch` jobs arrive at a load of 0.7 for twenty minutes of simulated time; then the run is cut. One
line for each protocol, policy and number of slots: CPU nanoseconds for each task event, that over
the smallest cluster's, decisions for each event, the jobs in the system at the end, and the
process' largest memory so far. The policy's own time is included. `quiet` is a session without
`Cluster.ask_while_idle`, `classes` are executors of four sizes of memory, of which tasks need a
uniform part of the largest; their jobs arrive 1.3 times less often, since not every executor can
hold every task.

Then `--waiting` jobs arrive at once on 50 slots. Last, for comparison, a compiled
loop with a heap of as many finish times as slots: take the earliest, draw another one.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Iterable
from typing import Any

import numba
import numpy as np

from decima.evaluation.settings_file import gap_at
from decima.registry import Heuristic
from spark_sim import Cluster, ExecutorClass, Protocol, Simulator, Streams
from spark_sim.tables import State
from traces import Job, Stage, Trace, load_trace, to_arrays
from traces.arrays import TraceArrays
from traces.arrivals import poisson
from traces.demands import drawn_demands
from traces.numbers import MS_PER_S, Float64

LOAD, MINUTES, SEED = 0.7, 20.0, 3
POLICIES = ("strict_fair", "spark_fair", "fifo", "es_rule")
SLOTS = (50, 500, 5_000)
CLUSTERS = {
    "executors": Cluster(),
    "session": Cluster(protocol=Protocol.SESSION),
    "quiet": Cluster(protocol=Protocol.SESSION, ask_while_idle=False),
    "classes": Cluster(),
}
SIZES_MB = (256.0, 512.0, 768.0, 1024.0)
CLASS_GAP = 1.3
"""how much longer mean gaps are where there are classes"""
WAITING_MINUTES = 2.0


def sized(label: str, slots: int, minutes: float) -> Cluster:
    """Return the cluster of that label with so many slots, cut after `minutes`."""
    known = CLUSTERS[label]
    counts = [len(part) for part in np.array_split(np.arange(slots), len(SIZES_MB))]
    sizes = zip(counts, SIZES_MB, strict=True)
    return Cluster(
        num_executors=slots,
        classes=tuple(ExecutorClass(count, memory_mb=size_mb) for count, size_mb in sizes)
        if label == "classes"
        else None,
        protocol=known.protocol,
        time_limit_ms=60.0 * minutes * MS_PER_S,
        ask_while_idle=known.ask_while_idle,
    )


def streamed(
    trace: Trace, arrays: TraceArrays, policy: str, cluster: Cluster
) -> tuple[float, State]:
    """CPU seconds of a run of arrivals up to the cluster's limit, and its state at the end."""
    end_ms = cluster.time_limit_ms or 0.0
    gap_ms = MS_PER_S * gap_at(trace.name, cluster.num_executors, LOAD)
    gap_ms *= CLASS_GAP if cluster.classes else 1.0
    streams = Streams(SEED, 0)
    drawn = poisson(trace, round(end_ms / gap_ms) + 1, gap_ms, streams.arrivals())
    key = streams.duration_key()
    return played(Simulator(arrays, cluster, drawn.arrival_ms, drawn.job, duration_key=key), policy)


def played(simulator: Simulator, policy: str) -> tuple[float, State]:
    """CPU seconds of a run, and its state at the end."""
    heuristic = Heuristic(policy)
    began_s = time.process_time()
    heuristic.play(simulator)
    return time.process_time() - began_s, simulator.state


def with_demands(trace: Trace) -> TraceArrays:
    """Arrays of the trace, with demands for memory; one class of executors holds every task."""
    return to_arrays(drawn_demands(trace, SIZES_MB[-1], np.random.default_rng(SEED)))


def small_jobs() -> TraceArrays:
    """Twenty chains of five stages of ten tasks."""
    jobs = []
    for number in range(20):
        stages = [
            Stage.fixed(f"s{index}", 10, 1000.0 + 100 * number, [index - 1] if index else [])
            for index in range(5)
        ]
        jobs.append(Job(f"j{number}", tuple(stages)))
    return with_demands(Trace("small", tuple(jobs)))


def _turn_over_plain(ends: Float64, lengths: Float64, events: int) -> float:
    """Take the earliest of `ends`, a heap, and put it back one of `lengths` later, so often."""
    total = 0.0
    bits = np.uint64(1)
    for _ in range(events):
        bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9) + np.uint64(1)
        now = ends[0]
        total += now
        end = now + lengths[np.int64(bits >> np.uint64(48))]
        place = 0
        while 2 * place + 1 < len(ends):
            below = 2 * place + 1
            if below + 1 < len(ends) and ends[below + 1] < ends[below]:
                below += 1
            if ends[below] >= end:
                break
            ends[place] = ends[below]
            place = below
        ends[place] = end
    return total


_turn_over: Any = numba.njit(_turn_over_plain)


def heap_ns(slots: int, events: int = 2_000_000) -> float:
    """CPU nanoseconds of an event of a bare compiled heap."""
    rng = np.random.default_rng(0)
    ends, lengths = np.sort(rng.random(slots)), 0.5 + rng.random(1 << 16)
    _turn_over(ends, lengths, 1)
    began_s = time.process_time()
    _turn_over(ends, lengths, events)
    return 1e9 * (time.process_time() - began_s) / events


def print_row(label: str, policy: str, slots: int, ran: tuple[float, State], base: float) -> float:
    """Print a line; returns nanoseconds an event. `base` is what the ratio is over; 0: itself."""
    cpu_s, state = ran
    clock = state.clock[0]
    events = int(clock["task_events"])
    event_ns = 1e9 * cpu_s / events
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(
        f"{label:10} {policy:12} {slots:6} {event_ns:8.0f} {event_ns / (base or event_ns):6.1f} "
        f"{int(clock['decisions']) / events:9.3f} {int(clock['num_active']):6} {memory:6}",
        flush=True,
    )
    return event_ns


def print_growth(labels: Iterable[str], policies: Iterable[str], sizes: list[int]) -> None:
    """Print the table of arrivals at a constant load."""
    trace = load_trace("tpch")
    arrays = with_demands(trace)
    for label in labels:
        for policy in policies:
            smallest = sized(label, sizes[0], MINUTES)
            streamed(trace, arrays, policy, smallest)  # loads the compiled code
            base = 0.0
            for slots in sizes:
                ran = streamed(trace, arrays, policy, sized(label, slots, MINUTES))
                found = print_row(label, policy, slots, ran, base)
                base = base or found


def print_waiting(labels: Iterable[str], policies: Iterable[str], count: int) -> None:
    """Print the table of `count` jobs that arrive at once on 50 slots."""
    arrays = small_jobs()
    job = (np.arange(count) % arrays.num_jobs).astype(np.int32)
    print(f"{count:,} jobs at once")
    for label in labels:
        for policy in policies:
            cluster = sized(label, 50, WAITING_MINUTES)
            ran = played(Simulator(arrays, cluster, np.zeros(count), job), policy)
            print_row(label, policy, 50, ran, 0.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--slots", default=",".join(map(str, SLOTS)))
    parser.add_argument("--policies", default=",".join(POLICIES))
    parser.add_argument("--protocols", default=",".join(CLUSTERS))
    parser.add_argument("--waiting", type=int, default=20_000)
    arguments = parser.parse_args()
    sizes = [int(size) for size in arguments.slots.split(",")]
    labels, policies = arguments.protocols.split(","), arguments.policies.split(",")
    print(
        f"{'protocol':10} {'policy':12} {'slots':>6} {'ns':>8} {'ratio':>6} {'decisions':>9} "
        f"{'jobs':>6} {'MB':>6}"
    )
    print_growth(labels, policies, sizes)
    print_waiting(labels, policies, arguments.waiting)
    for slots in sizes:
        print(f"a bare heap, {slots} slots: {heap_ns(slots):.0f} ns")


if __name__ == "__main__":
    main()
