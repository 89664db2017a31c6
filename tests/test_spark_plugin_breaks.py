"""Caps hold whatever of the plugin fails: each class and thread of it, one after the other.

Slow (six minutes): `pytest -m slow tests/test_spark_plugin_breaks.py`.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.jvm import Classes
from tests.spark_commands import compiled
from traces.loopback import LOOPBACK

pytestmark = [pytest.mark.slow, pytest.mark.real_spark]

ROOT = Path(__file__).parents[1]
CAP = 2
OPENED = ("java.lang", "java.lang.invoke", "java.nio", "java.util", "java.util.concurrent",
          "sun.nio.ch", "sun.util.calendar")  # fmt: skip
"""as Spark's own commands open them"""
EXACT = ROOT / "decima" / "spark" / "java" / "exact"
TRUSTED = {path.stem for path in EXACT.glob("*.java")} - {"Report", "Json"}
"""what counts and refuses inside Spark's scheduler: where it fails, tasks may be held back"""


class Broken(NamedTuple):
    """A session in which a part of the plugin was broken."""

    most: int
    """tasks of the user with a cap that ran at once"""
    outcome: str
    """"refused": it did not start; else what became of jobs afterwards, "ended" or "held" """


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory, classes: Classes) -> Path:
    return compiled(tmp_path_factory.mktemp("breaks"), classes, "Breaks", 11)


def broken(program: Path, classes: Classes, how: str, *settings: str) -> dict[str, Broken]:
    """What became of a session by the part that was broken in it."""
    # Without ours, which a class loader of its own has.
    of_spark = classes.path.removeprefix(f"{classes.jar}:")
    opens = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED]
    conf = [f"-D{key}={value}" for key, value in LOOPBACK.items()]
    done = subprocess.run(  # noqa: S603 - our own class
        ["java", *opens, *conf, "-Dspark.ui.enabled=false", "-cp", f"{program}:{of_spark}",  # noqa: S607
         "Breaks", how, str(classes.jar), *settings],
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3_000:]
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith("part ")]
    return {part: Broken(int(most), outcome) for _, part, most, outcome in rows}


def test_an_application_with_caps_does_not_start_without_a_class(
    program: Path, classes: Classes
) -> None:
    outcome = broken(program, classes, "missing")
    assert outcome.pop("none") == Broken(CAP, "ended")
    assert len(outcome) > 80
    assert {part.outcome for part in outcome.values()} == {"refused"}


@pytest.mark.parametrize("policy", ["strict_fair", "decima"])
def test_caps_hold_when_every_method_of_a_class_fails(
    program: Path, classes: Classes, policy: str
) -> None:
    """Jobs go on, but for what counts: there they fail or wait, as nothing else holds their cap."""
    outcome = broken(program, classes, "broken", f"policy={policy}")
    assert outcome.pop("none") == Broken(CAP, "ended")
    assert {part: result.most for part, result in outcome.items()} == dict.fromkeys(outcome, CAP)
    held = {part.rsplit(".", 1)[1] for part, result in outcome.items() if result.outcome != "ended"}
    assert {name.partition("$")[0] for name in held} <= TRUSTED


def test_caps_hold_when_a_thread_dies(program: Path, classes: Classes) -> None:
    """Without the thread of events Spark itself stops."""
    outcome = broken(program, classes, "thread")
    assert outcome.pop("none") == Broken(CAP, "ended")
    assert {"decima-planner", "decima-watchdog", "decima-health"} <= set(outcome)
    assert {part: result.most for part, result in outcome.items()} == dict.fromkeys(outcome, CAP)
    waits = {part for part, result in outcome.items() if result.outcome != "ended"}
    assert waits <= {"spark-listener-group-decima"}
