"""Recording of a trace from a plan, or from the logs of an earlier recording."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.record_tpch.calibration import calibrated
from benchmarks.record_tpch.plan import APPLICATION, QUERIES, RecordingPlan
from benchmarks.record_tpch.session import EVENTS, FACTS, RecordingProgress, record_logs
from traces.errors import TraceError
from traces.files.reading import read_json
from traces.inflation import MODEL
from traces.model import Job
from traces.spark_log import read_spark_logs
from traces.thinning import thinned
from traces.trace import Trace

DEFAULT_SAMPLES = 1024  # samples that the file keeps of each stage: all, up to TPC-H scale factor 3

NOTE = "derived from TPC-H; not comparable with TPC-H results, and not a TPC benchmark result"

_RUN = re.compile(rf"{APPLICATION}/(?P<job>sf[^/]+/q\d+)/run\d+")


def record_tpch(
    plan: RecordingPlan,
    *,
    name: str = "tpch",
    samples: int = DEFAULT_SAMPLES,
    model: bool = True,
    keep_logs: Path | None = None,
    progress: RecordingProgress = lambda line: None,
) -> Trace:
    """Record `plan` on this machine.

    `samples` is about the most of a stage (`traces.thinning`), `model` requests the executor model
    (`traces.inflation`), `keep_logs` is a folder for the event log and the facts, and `progress`
    gets a line as each step ends.
    """
    with tempfile.TemporaryDirectory(prefix="tpch-logs-") as scratch:
        folder = keep_logs if keep_logs is not None else Path(scratch)
        record_logs(plan, folder, progress)
        return read_recording(folder, name=name, samples=samples, model=model)


def read_recording(
    folder: Path, *, name: str = "tpch", samples: int = DEFAULT_SAMPLES, model: bool = True
) -> Trace:
    """Return the trace of the logs that `record_tpch` stored in `folder`; arguments as there."""
    facts = read_json(folder / FACTS, TraceError)
    if not isinstance(facts, dict) or not isinstance(facts.get("slots"), int):
        raise TraceError(
            f"{folder / FACTS}: no facts of a recording: the number of slots is missing"
        )
    imported, summary = read_spark_logs([folder / EVENTS], executors=facts["slots"], name=name)
    runs: dict[str, list[Job]] = {}
    for job in imported.jobs:
        matched = _RUN.fullmatch(job.name)  # warm-up and the reading of schemas have other names
        if matched is not None:
            runs.setdefault(matched["job"], []).append(job)
    if not runs:
        raise TraceError(f"{folder}: no run of a query is in the log")
    fastest = {name: min(repeats, key=lambda run: run.work_ms) for name, repeats in runs.items()}
    ordered = sorted(fastest, key=_order)
    origin_ms = min(job.arrival_ms or 0.0 for job in fastest.values())
    jobs, recorded = [], {}
    for job_name in ordered:
        run = fastest[job_name]
        arrival_ms = (run.arrival_ms or 0.0) - origin_ms
        jobs.append(thinned(replace(run, name=job_name, arrival_ms=arrival_ms), samples))
        times = imported.metadata["recorded"][run.name]
        moved = {key: times[key] - round(origin_ms) for key in ("start_ms", "end_ms")}
        recorded[job_name] = {**times, **moved}
    metadata: dict[str, Any] = {
        "note": NOTE,
        "recipe": _recipe(facts, samples, {_order(job_name)[1] for job_name in ordered}),
        "format": imported.metadata["format"],
        "group_by": imported.metadata["group_by"],
        "applications": [
            {key: value for key, value in application.items() if key != "settings"}
            for application in imported.metadata["applications"]
        ],
        "recorded": recorded,
        "skipped": {"lines": summary.lines_skipped, "tasks without an end": summary.tasks_missing},
    }
    trace = Trace(name, tuple(jobs), metadata)
    if not model:
        return trace
    return replace(trace, metadata={**metadata, MODEL: calibrated(trace).as_metadata()})


def _order(job: str) -> tuple[float, int]:
    """Scale factor, query."""
    size, _, query = job.partition("/")
    return float(size.removeprefix("sf")), int(query.removeprefix("q"))


def _recipe(facts: Mapping[str, Any], samples: int, queries: set[int]) -> dict[str, str]:
    """Describe how to record the trace again; one line a fact."""
    layout = facts["layout"].items()
    parts = ", ".join(f"{key}={value}" for key, value in layout if value is not None)
    sizes = facts["size_settings"].items()
    numbers = "all 22" if queries == set(QUERIES) else ", ".join(map(str, sorted(queries)))
    return {
        "recorded by": "python -m benchmarks.record_tpch",
        "data": f"{facts['generator']}, Parquet ({parts or 'one file a table'})",
        "scale factors": ", ".join(f"{factor:g}" for factor in facts["scale_factors"]),
        "queries": f"{numbers} of TPC-H, with the parameters of its validation run",
        "variant": facts["variant"],
        "spark": f"{facts['spark']}, {facts['master']}, driver memory {facts['driver_memory']}",
        "java": facts["java"],
        "machine": f"{facts['cpu']}, {facts['system']}",
        "settings": _pairs(facts["settings"]),
        "by scale factor": "; ".join(f"{size}: {_pairs(jobs)}" for size, jobs in sizes if jobs),
        "runs": (
            f"{facts['runs']}: all queries once on the smallest data to warm up, then at most "
            f"{facts['repetitions']} of each job, of which the one with the least work is stored"
        ),
        "time": f"{facts['wall_s']:,.0f} s in queries, mean load average {facts['mean_load']:.1f}",
        "samples": f"all durations of a stage of up to {samples} tasks; else shares' means",
    }


def _pairs(settings: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in settings.items())
