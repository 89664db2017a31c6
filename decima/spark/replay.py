"""Jobs of a trace as real Spark jobs whose tasks sleep: what a policy does on a real cluster.

A task takes its stage's mean duration, so that a run can be compared with the simulator's job by
job: both then differ only in what Spark adds.
"""

from __future__ import annotations

import tempfile
import threading
import time
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from decima.evaluation.runner import play
from decima.policies import policy_named
from decima.registry import Parameters
from decima.spark.jvm import first_line, java_class
from decima.spark.settings import AttachError
from decima.whatif.replay.pools import Pools
from decima.whatif.replay.recording import POOLS
from decima.whatif.replay.spark_order import SparkJobs, play_spark
from spark_sim import Cluster, Protocol, Simulator
from traces import Job, LevelDurations, Trace
from traces.arrays import to_arrays
from traces.numbers import Float64

POOL = "spark.scheduler.pool"
JOB_PROPERTY = "decima.job"
_MEASURED_MS = 100
_MEASURED_WAVES = (4, 14)
_MEASUREMENTS = 3


def _janino_loader(jvm: Any, _gateway: Any) -> tuple[Any, str]:
    """A loader of ``decima.spark.Replay``, and a jar of it for as long as this process lives.

    Janino, the compiler that Spark ships, compiles it in the driver: the plugin's jar is for every
    version of Scala, and this class extends what differs between them.
    """
    text = (files("decima.spark") / "java" / "replay" / "Replay.java").read_text("utf-8")
    try:
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
    except TypeError:  # a package, not a class
        raise AttachError("this Spark has no Janino, which compiles the replayed jobs") from None
    compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.cook(text)
    path = Path(tempfile.mkdtemp(prefix="decima-")) / "replay.jar"
    codes = compiler.getBytecodes()
    with zipfile.ZipFile(path, "w") as jar:
        for name in codes.keySet():
            jar.writestr(f"{name.replace('.', '/')}.class", bytes(codes[name]))
    return compiler.getClassLoader(), str(path)


def at_scale(trace: Trace, time_scale: float) -> Trace:
    """The trace with every task at `time_scale` times its stage's mean, whole milliseconds.

    A job with several last stages gets one more, of one short task: Spark runs one graph from one
    last stage.
    """
    jobs = []
    for job in trace.jobs:
        stages = [
            replace(stage, durations=_fixed(max(1.0, float(round(stage.mean_ms * time_scale)))))
            for stage in job.stages
        ]
        ends = tuple(row for row, children in enumerate(job.children) if not children)
        if len(ends) > 1:
            end = replace(stages[-1], name="end", num_tasks=1, parents=ends, durations=_fixed(1.0))
            stages.append(end)
        jobs.append(replace(job, stages=tuple(stages)))
    return Trace(trace.name, tuple(jobs))


def _fixed(task_ms: float) -> tuple[LevelDurations]:
    """Durations of a stage whose tasks all take as long."""
    took_ms = [task_ms]
    return (LevelDurations.of(1, fresh_ms=took_ms, first_ms=took_ms, rest_ms=took_ms),)


def graph_text(job: Job) -> str:
    """The job as `Replay.build` takes it: stages with parents before children."""
    order = job.topological_order
    place = {row: index for index, row in enumerate(order)}
    parts = []
    for row in order:
        stage = job.stages[row]
        parents = ",".join(str(place[parent]) for parent in stage.parents)
        times = ",".join([str(round(stage.mean_ms))] * stage.num_tasks)
        parts.append(f"{parents}:{times}")
    return ";".join(parts)


def with_overhead(job: Job, task_ms: float) -> Job:
    """The job with `task_ms` more for every task: for the simulator, what Spark adds to it."""
    stages = [replace(s, durations=_fixed(s.mean_ms + task_ms)) for s in job.stages]
    return replace(job, stages=tuple(stages))


class Replayer:
    """Submitter of jobs to one Spark session."""

    def __init__(self, spark: Any, *, is_warmed: bool = True) -> None:
        """`is_warmed`: run a first job, which needs executors. AttachError: Spark lacks a part."""
        self._context = spark.sparkContext
        kind = java_class(
            self._context, "decima.spark.Replay", for_executors=True, load=_janino_loader
        )
        self._build = next(method for method in kind.getMethods() if method.getName() == "build")
        if is_warmed:
            self.run_one("warm-up", ":1,1;0:1")

    def run_one(self, name: str, graph: str) -> None:
        """One job from its first stage to its last; returns when it is complete."""
        arguments = self._context._gateway.new_array(self._context._jvm.java.lang.Object, 3)
        arguments[0], arguments[1], arguments[2] = self._context._jsc.sc(), name, graph
        self._build.invoke(None, arguments).count()

    def overhead_ms(self, slots: int) -> float:
        """Measure what this Spark adds to a task: the extra time of a wave of sleeping tasks.

        From the difference between a long and a short stage, so that what a stage or a job costs
        once cancels out; the median of a few, to ignore busy moments.
        """
        short, long = _MEASURED_WAVES
        added_ms = []
        for _ in range(_MEASUREMENTS):
            extra_s = self._waves_s(slots, long) - self._waves_s(slots, short)
            added_ms.append(1000 * extra_s / (long - short) - _MEASURED_MS)
        return max(0.0, float(np.median(added_ms)))

    def _waves_s(self, slots: int, waves: int) -> float:
        began = time.monotonic()
        self.run_one("overhead", ":" + ",".join([str(_MEASURED_MS)] * slots * waves))
        return time.monotonic() - began

    def run(
        self, jobs: Sequence[Job], arrival_s: Float64, pools: Sequence[str] | None = None
    ) -> Float64:
        """(K,) JCT in s of jobs submitted at the given times; AttachError: a job failed.

        `pools` are theirs in Spark's FAIR scheduler; None gives each its own.
        """
        names = [f"{job.name} #{number}" for number, job in enumerate(jobs)]
        graphs = [graph_text(job) for job in jobs]
        return submit_all(
            self._context, names, arrival_s, lambda k: self.run_one(names[k], graphs[k]), pools
        )


def submit_all(
    context: Any,
    names: Sequence[str],
    arrival_s: Float64,
    run: Callable[[int], None],
    pools: Sequence[str] | None = None,
) -> Float64:
    """(K,) JCT in s of jobs that `run(k)` runs at their times; AttachError: a job failed.

    Each goes to its pool; None gives each a pool of its own name.
    """
    jct_s = np.full(len(names), np.nan)
    faults: list[str] = []
    begun = time.monotonic()

    def work(number: int) -> None:
        time.sleep(max(0.0, arrival_s[number] - (time.monotonic() - begun)))
        submitted = time.monotonic()
        context.setLocalProperty(JOB_PROPERTY, names[number])
        context.setLocalProperty(POOL, (pools or names)[number])
        try:
            run(number)
        except Exception as error:  # noqa: BLE001 - py4j's, for any error in Spark; reported below
            faults.append(f"{names[number]}: {first_line(error)}")
        jct_s[number] = time.monotonic() - submitted

    threads = [
        threading.Thread(target=work, args=(number,), daemon=True) for number in range(len(names))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if faults:
        raise AttachError(faults[0])
    return jct_s


def simulated_in_pools_s(
    jobs: Sequence[Job],
    arrival_s: Float64,
    slots: int,
    names: Sequence[str],
    pools: Pools | None = None,
) -> Float64:
    """(K,) JCT in the simulator under Spark's FAIR scheduler, where each job is in a pool."""
    simulator = _simulator(jobs, arrival_s, slots)
    first = np.concatenate([[0], np.cumsum([len(job.stages) for job in jobs])])
    spark_jobs = [
        SparkJobs(np.zeros(len(job.stages), np.int64), begin + np.arange(len(job.stages)), name)
        for job, begin, name in zip(jobs, first[:-1], names, strict=True)
    ]
    play_spark(simulator, POOLS, spark_jobs, pools or Pools.without_file(None))
    jct_s: Float64 = simulator.completion_ms() / 1000 - arrival_s
    return jct_s


def simulated_s(
    jobs: Sequence[Job],
    arrival_s: Float64,
    slots: int,
    policy: str,
    parameters: Parameters | None = None,
    moving_delay_ms: float | None = None,
) -> Float64:
    """(K,) JCT in the shared session; with `moving_delay_ms` as applications of `executors`."""
    simulator = _simulator(jobs, arrival_s, slots, moving_delay_ms)
    play(simulator, policy_named(policy, simulator.state.trace, parameters=parameters))
    jct_s: Float64 = simulator.completion_ms() / 1000 - arrival_s
    return jct_s


def _simulator(
    jobs: Sequence[Job], arrival_s: Float64, slots: int, moving_delay_ms: float | None = None
) -> Simulator:
    distinct = {job.name: job for job in jobs}
    place = {name: row for row, name in enumerate(distinct)}
    drawn = np.array([place[job.name] for job in jobs], np.int32)
    arrays = to_arrays(Trace("replay", tuple(distinct.values())))
    cluster = Cluster(
        num_executors=slots,
        protocol=Protocol.SESSION if moving_delay_ms is None else Protocol.EXECUTORS,
        moving_delay_ms=moving_delay_ms or 0,
        warmup_delay_ms=0,
    )
    return Simulator(arrays, cluster, 1000 * arrival_s, drawn)
