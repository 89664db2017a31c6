"""Cost of the plugin in large sessions: many slots, many jobs at once, many tasks.

    python -m benchmarks.spark_scale [--policies spark_fair,tuned_srw] [--seconds 40] [--json OUT]

A Java program without Python (`java_app/ManyJobs.java`) on one Spark with a thread for each slot
(``local[SLOTS]``: Spark's own scheduler and backend, nothing mocked); tasks sleep. The plugin's
part of an offer round and of a plan comes from its own metrics at the end, over the newest
thousand. "Spark" is Spark without the plugin, in FAIR mode with one pool.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import socket
import subprocess
import tempfile
from math import nan
from pathlib import Path
from typing import NamedTuple
from urllib.request import urlopen

from decima.spark.jar import PLUGIN, find_javac, plugin_jar, spark_jars
from traces.loopback import ADDRESS, LOOPBACK

HEAP = "6g"
_SOURCE = Path(__file__).parent / "java_app" / "ManyJobs.java"
_METRIC = re.compile(r"^(decima_[a-z_0-9]+(?:\{quantile=\"0\.[0-9]\"\})?) (\S+)$", re.MULTILINE)


class Size(NamedTuple):
    """Size of a session."""

    slots: int
    jobs: int
    """at once"""
    tasks: int
    """of each job, in one stage"""
    sleep_ms: int


SIZES = (
    Size(8, 20, 200, 100),
    Size(64, 100, 200, 500),
    Size(256, 300, 400, 1_000),
    Size(1_000, 500, 400, 4_000),
    Size(1_000, 20, 50_000, 4_000),
)


def compile_program(folder: Path) -> Path:
    """`ManyJobs`, as a jar."""
    javac, jar = find_javac(os.environ), folder / "many.jar"
    command = [javac, "--release", "8", "-Xlint:-options", "-cp", f"{spark_jars()}/*"]
    subprocess.run([*map(str, command), "-d", str(folder), str(_SOURCE)], check=True)  # noqa: S603 - the JDK's compiler
    pack = [str(javac.with_name("jar")), "cf", str(jar), "-C", str(folder), "ManyJobs.class"]
    subprocess.run(pack, check=True)  # noqa: S603 - the JDK's
    return jar


def free_port() -> int:
    """Return a free port."""
    with socket.socket() as one:
        one.bind((ADDRESS, 0))
        return int(one.getsockname()[1])


def scrape(port: int) -> dict[str, float]:
    """The plugin's metrics as they are now."""
    with urlopen(f"http://{ADDRESS}:{port}/metrics", timeout=10) as reply:
        text = reply.read().decode()
    return {name: float(value) for name, value in _METRIC.findall(text)}


def measure(size: Size, policy: str, seconds: int, program: Path, jar: Path) -> dict[str, float]:
    """Return the figures of one run.

    Args:
        size: of the session.
        policy: of the plugin; "Spark" without it.
        seconds: how long.
        program: what `compile_program` made.
        jar: the plugin.
    """
    port = free_port()
    conf = {**LOOPBACK, "spark.ui.enabled": "false", "spark.scheduler.mode": "FAIR"}
    flags = ["--driver-memory", HEAP]
    if policy != "Spark":
        flags += ["--jars", str(jar)]
        conf |= {"spark.plugins": PLUGIN, "spark.decima.policy": policy}
        conf["spark.decima.metricsPort"] = str(port)
    flags += [part for key, value in conf.items() for part in ("--conf", f"{key}={value}")]
    home = spark_jars().parent
    command = [home / "bin" / "spark-submit", "--master", f"local[{size.slots}]", *flags]
    command += ["--class", "ManyJobs", program, *size[1:], seconds]
    told, metrics = {}, {}
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(  # noqa: S603 - Spark's own
            list(map(str, command)),
            env={**os.environ, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": ADDRESS},
            stdout=subprocess.PIPE, stderr=errors, text=True,
        ) as process,
    ):  # fmt: skip
        for text in process.stdout or ():
            name, _, value = text.strip().partition(" ")
            told[name] = value
            if name == "done" and policy != "Spark":
                metrics = scrape(port)  # while the last offers are those of the full session
        process.wait()
        if process.returncode != 0:
            errors.seek(0)
            raise SystemExit(f"{policy} on {size}: {errors.read()[-2_000:]}")
    before_mb, after_mb = map(float, told["heap_mb"].split())
    found = {"done": float(told["done"]), "cpu_s": float(told["cpu_s"])}
    return found | {"heap_before_mb": before_mb, "heap_after_mb": after_mb} | metrics


def line(policy: str, size: Size, found: dict[str, float]) -> str:
    """A row of the table."""
    plan_ms = [1e3 * found.get(f'decima_plan_seconds{{quantile="{q}"}}', nan) for q in (0.5, 0.9)]
    cells = [
        f"{size.slots:,} slots, {size.jobs} jobs of {size.tasks:,} tasks", policy,
        f"{found.get('decima_startup_ms', nan):.0f}",
        f"{found.get('decima_offer_round_us_median', nan):.0f}",
        f"{found.get('decima_offer_round_us_p99', nan):.0f}",
        *(f"{one:.1f}" for one in plan_ms),
        f"{found.get('decima_plans_total', 0):.0f}",
        f"{found['done']:.0f}", f"{found['cpu_s']:.1f}",
        f"{found['heap_after_mb'] - found['heap_before_mb']:+.0f}",
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--policies", default="Spark,strict_fair,tuned_srw,es_rule")
    parser.add_argument("--sizes", default=",".join(map(str, range(len(SIZES)))))
    parser.add_argument("--seconds", type=int, default=40)
    parser.add_argument("--jar", type=Path, help="of another version, to compare with")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    rows = []
    print(
        "| session | policy | start-up ms | offer round µs | p99 | plan ms | p90 | plans "
        "| jobs done | CPU s | heap MB |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        program = compile_program(Path(folder))
        for size in (SIZES[int(index)] for index in given.sizes.split(",")):
            for policy in given.policies.split(","):
                found = measure(size, policy, given.seconds, program, given.jar or plugin_jar())
                rows.append({"policy": policy, **size._asdict(), **found})
                print(line(policy, size, found), flush=True)
    if given.json is not None:
        given.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
