"""Weights of pools on a live Spark while a policy is attached, measured inside the tasks.

Slow: `pytest -m slow tests/test_spark_pools.py`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from decima.spark.jar import PLUGIN
from decima.whatif.replay.pools import Pool, Pools, allocation_file
from tests.jvm import Classes
from tests.pool_driver import TASKS
from traces.loopback import LOOPBACK

pytestmark = [pytest.mark.slow, pytest.mark.real_spark]

ROOT = Path(__file__).parents[1]
SLOTS = 8
Spans = list[tuple[float, float]]


def tasks_by_pool(folder: Path, jar: Path, **settings: str) -> dict[str, Spans]:
    """Begin and end of each task of two pools of weights 3:1, under strict fair."""
    pools = folder / "fairscheduler.xml"
    pools.write_text(allocation_file(Pools({"prod": Pool(weight=3), "adhoc": Pool()})))
    conf = {
        **LOOPBACK,
        "spark.master": f"local[{SLOTS}]",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.scheduler.mode": "FAIR",
        "spark.scheduler.allocation.file": str(pools),
        "spark.driver.extraClassPath": str(jar),
        "spark.plugins": PLUGIN,
        **{f"spark.decima.{name}": value for name, value in settings.items()},
    }
    done = subprocess.run(  # noqa: S603 - a module of the tests'
        [sys.executable, "-m", "tests.pool_driver", json.dumps(conf)],
        cwd=ROOT,
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3_000:]
    assert "decima: policy decides" in done.stderr
    content: dict[str, Spans] = json.loads(done.stdout.splitlines()[-1])
    assert {len(spans) for spans in content.values()} == {TASKS}
    return content


def share_of_prod(spans_of: dict[str, Spans]) -> float:
    """Its part of the time in tasks, while both pools had tasks to start."""
    begin_s = max(min(begin for begin, _ in spans) for spans in spans_of.values())
    end_s = min(max(begin for begin, _ in spans) for spans in spans_of.values())
    busy_s = {
        pool: sum(max(0.0, min(end, end_s) - max(begin, begin_s)) for begin, end in spans)
        for pool, spans in spans_of.items()
    }
    return busy_s["prod"] / sum(busy_s.values())


def test_a_pool_of_weight_three_has_three_quarters(classes: Classes, tmp_path: Path) -> None:
    """One job against three of another pool; strict fair alone would give it a quarter."""
    shares = {
        setting: share_of_prod(tasks_by_pool(tmp_path, classes.jar, pools=setting))
        for setting in ("keep", "ignore")
    }
    assert shares["keep"] == pytest.approx(0.75, abs=0.08)
    assert shares["ignore"] == pytest.approx(0.25, abs=0.08)
