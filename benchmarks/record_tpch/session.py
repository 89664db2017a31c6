"""Recording session: it generates the tables, runs the queries and stores the event logs."""

from __future__ import annotations

import importlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.record_tpch.java import Java, driver_command, find_java, packaged_java
from benchmarks.record_tpch.plan import APPLICATION, LAYOUTS, RecordingPlan
from traces.errors import TraceError
from traces.files.writing import write_json
from traces.tpch.tables import (
    PROGRAM,
    TABLE_BYTES,
    find_generator,
    generate_tables,
    last_line,
    query_text,
)

EVENTS, FACTS = "events", "facts.json"
"""files in the folder of a recording: the event log, and its facts"""

RecordingProgress = Callable[[str], None]  # called with one line as each step ends


class Spark(NamedTuple):
    """An installed PySpark."""

    home: Path
    major: int


def record_logs(plan: RecordingPlan, folder: Path, progress: RecordingProgress) -> None:
    """Run `plan`; `EVENTS` and `FACTS` go to `folder`. The tables are removed at the end."""
    generator, spark = find_generator(), find_spark()
    java = find_java(spark.major, os.environ, packaged_java())
    events = folder / EVENTS
    events.mkdir(parents=True, exist_ok=True)
    if any(events.iterdir()):
        raise TraceError(f"{events}: holds files already; give a new folder")
    with tempfile.TemporaryDirectory(prefix="tpch-") as scratch:
        check_space(Path(scratch), plan.scale_factors)
        for factor in plan.scale_factors:
            generate_tables(generator, factor, _tables(scratch, factor), LAYOUTS[plan.variant])
            progress(f"scale factor {factor:g}: tables written")
        settings = {**plan.launch_settings(), "spark.eventLog.dir": events.resolve().as_uri()}
        settings["spark.local.dir"] = settings["spark.sql.warehouse.dir"] = scratch
        command = driver_command(java, spark.home, settings, os.environ)
        orders = {
            "command": command,
            "master": plan.master,
            "name": APPLICATION,
            "time_limit_s": plan.time_limit_s,
            "runs": [
                {
                    "repetition": run.repetition,
                    "description": run.description,
                    "tables": str(_tables(scratch, run.scale_factor)),
                    "settings": plan.size_settings(run.scale_factor),
                    "sql": query_text(run.query, run.scale_factor),
                }
                for run in plan.runs()
            ],
        }
        reports = _run_worker(orders, Path(scratch), progress)
    facts = _facts(plan, java, _generator_version(generator), reports)
    write_json(folder / FACTS, facts, TraceError)


def find_spark() -> Spark:
    """The PySpark of this Python."""
    try:
        package = importlib.import_module("pyspark")
    except ImportError:
        raise TraceError(
            "pyspark: not found; install it with pip install 'decima-scheduler[spark]'"
        ) from None
    return Spark(Path(str(package.__file__)).parent, int(package.__version__.partition(".")[0]))


def check_space(folder: Path, scale_factors: tuple[float, ...]) -> None:
    """Refuse tables that would take more than is free below `folder`."""
    needed = 1.1 * sum(TABLE_BYTES.values()) * sum(scale_factors)
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise TraceError(
            f"{folder}: the tables take about {needed / 1e9:,.1f} GB, {free / 1e9:,.1f} GB are free"
        )


def _generator_version(program: Path) -> str:
    """Return the generator's version, such as ``4.0.0``."""
    done = subprocess.run(  # noqa: S603
        [str(program), "--version"], capture_output=True, text=True, check=False
    )
    return done.stdout.strip().rpartition(" ")[2] if done.returncode == 0 else "unknown"


def _tables(scratch: str | Path, scale_factor: float) -> Path:
    return Path(scratch) / f"sf{scale_factor:g}"


def _run_worker(
    orders: Mapping[str, Any], scratch: Path, progress: RecordingProgress
) -> list[dict[str, Any]]:
    """Run the queries in their own process; return its lines of output."""
    written = scratch / "orders.json"
    written.write_text(json.dumps(orders), "utf-8")
    home = str(Path(__file__).parents[2])
    path = os.pathsep.join([home, *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "benchmarks.record_tpch.worker", str(written)]
    reports: list[dict[str, Any]] = []
    with (scratch / "spark.txt").open("w+", encoding="utf-8") as said:
        process = subprocess.Popen(  # noqa: S603
            command,
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
        )
        try:
            assert process.stdout is not None  # noqa: S101 - for mypy; it is a pipe
            for line in process.stdout:
                reports.append(json.loads(line))
                if "run" in reports[-1]:
                    last, done = reports[-1], len(reports) - 1
                    progress(
                        f"{last['run']}: {last['wall_s']:.1f} s, {done} of {len(orders['runs'])}"
                    )
        except BaseException:  # an interrupt, too: no process may stay behind
            process.terminate()
            process.wait()
            raise
        code = process.wait()
        if code != 0:
            said.seek(0)
            reason = f"signal {-code}" if code < 0 else last_line(said.read())
            raise TraceError(f"the Spark session failed: {reason}")
    return reports


def _facts(
    plan: RecordingPlan, java: Java, generator: str, reports: list[dict[str, Any]]
) -> dict[str, Any]:
    session, runs = reports[0], reports[1:]
    settings = plan.launch_settings()
    sizes = {f"{factor:g}": plan.size_settings(factor) for factor in plan.scale_factors}
    return {
        "spark": session["spark"],
        "java": f"{session['java']}, from {java.origin}",
        "generator": f"{PROGRAM} {generator}",
        "layout": LAYOUTS[plan.variant]._asdict(),
        "variant": plan.variant.value,
        "scale_factors": list(plan.scale_factors),
        "repetitions": plan.repetitions,
        "slots": plan.cores,
        "master": plan.master,
        "settings": {key: value for key, value in settings.items() if "driver." not in key},
        "driver_memory": plan.driver_memory,
        "size_settings": sizes,
        "cpu": f"{cpu_model()}, {os.cpu_count()} cores",
        "system": f"{platform.system()} {platform.machine()}",
        "runs": len(runs),
        "wall_s": sum(run["wall_s"] for run in runs),
        "mean_load": sum(run["load"] for run in runs) / len(runs),
    }


def cpu_model() -> str:
    """Return the processor's name, if the system has one."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
