"""What the plugin allows, counts and writes to a decision log, asked in a JVM without Spark."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from decima.spark.decision_log import read_decision_log
from tests.decision_logs import plan_row
from tests.jvm import Talk
from tests.live import Live, Row, report, task_set

pytestmark = pytest.mark.real_spark


# --- settings ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("lapse", ["5", "99ms", "2h", "soon", "-1s"]),
        ("hold", ["10000000000000000d", "106751992d", "61s"]),
        ("decision", ["0", "11min"]),
        ("starve", ["5", "10000000000000000d"]),
        ("idle", ["5", "8d"]),
        ("autoEvery", ["0s", "600", "10000000000000000d"]),
        ("pools", ["maybe"]),
        ("required", ["ture"]),
        ("maxSlotsPerJob", ["0", "two"]),
        ("maxSlots.user.bob", ["-1"]),
        ("maxJobs", ["0", "-1", "two", "1.5", ""]),
        ("metricsPort", ["65536", "-1", "http"]),
        ("decisionLogFiles", ["1"]),
        ("decisionLogBytes", ["0"]),
        ("weight", ["0", "nan", "heavy", "1e-320"]),
        ("coordinator", ["127.0.0.1", "host:port"]),
    ],
)
def test_a_value_that_makes_no_sense_is_refused(jvm: Talk, name: str, values: list[str]) -> None:
    """A lapse of 5, read as 5 ms; a hold that overflows: the line names setting and value."""
    for value in values:
        assert f"spark.decima.{name}: '{value}'" in jvm.ask({"settings": {name: value}})


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"lapse": "5"}, "is 5 ms: from 100 to 3600000 ms are allowed"),
        ({"lapse": "100ms", "hold": "0", "idle": "5s", "starve": "1min"}, None),
        ({"lapse": "2s", "hold": "100", "metricsPort": "0", "decisionLogFiles": "2"}, None),
        ({"pools": "ignore", "required": "caps"}, None),
        ({"policy": "auto", "python": "python3", "mode": "shadow"}, None),
        ({"policy": "auto", "python": "python3", "mode": "soft"}, "mode exact or shadow"),
        ({"mode": "exact", "maxSlotsPerJob": "2"}, None),
        ({"mode": "exact", "maxJobs": "2"}, None),
        ({"mode": "soft", "maxJobs": "2"}, "spark.decima.mode: 'soft'"),
        ({"mode": "shadow", "maxJobs": "2"}, "so maxJobs 2 would not hold"),
        ({"mode": "soft", "maxSlotsPerJob": "2"}, "spark.decima.mode: 'soft'"),
        ({"mode": "shadow", "maxSlotsPerJob": "2"}, "spark.decima.mode: 'shadow'"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(
    jvm: Talk, given: dict[str, str], reason: str | None
) -> None:
    """Caps would not hold in soft or shadow mode; shares of pools stay as they were set."""
    answer = jvm.ask({"settings": given})
    assert answer is None if reason is None else reason in answer


@pytest.mark.parametrize(
    ("given", "nearest"),
    [
        ("maxSlotPerJob", "maxSlotsPerJob"),
        ("maxslots.user.bob", "maxSlots.user.bob"),
        ("maxSlots.users.bob", "maxSlots.user.bob"),
        ("maxSlots.pol.small", "maxSlots.pool.small"),
        ("polcy", "policy"),
    ],
)
def test_a_misspelt_setting_is_refused_with_the_nearest_name(
    jvm: Talk, given: str, nearest: str
) -> None:
    answer = jvm.ask({"settings": {given: "2"}})
    assert answer.startswith(f"spark.decima.{given}: no such setting")
    assert answer.endswith(f" spark.decima.{nearest}")


# --- failures in a row ---------------------------------------------------------------------------


WAITS = [task_set(0, 10, job="a")]
LAST_TASKS = [task_set(0, 2, running=2, job="a"), task_set(1, 5, job="a")]


@pytest.mark.parametrize(
    ("script", "slots", "every_s", "idle_slots", "sets", "failures"),
    [
        # In between, last tasks hold all that the cap allows, so that the policy is not asked.
        (["raise"], 2, 1, 0, [WAITS, LAST_TASKS] * 5, [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]),
        # Six slots stand idle beside the user's tasks, as they should.
        (["raise", "raise", "fifo"], 8, 1, 0, [WAITS] * 3, [1, 2, 0]),
        # Two stand idle that the cap allows; the six others excuse nothing.
        (["pass"], 8, 3, 2, [WAITS] * 4, [0, 0, 1, 1]),
    ],
    ids=["closed rounds forgive nothing", "a full round forgives", "idle slots are a fault"],
)
def test_failures_in_a_row_under_a_cap_of_two(
    jvm: Talk,
    script: list[str],
    slots: int,
    every_s: int,
    idle_slots: int,
    sets: list[list[Row]],
    failures: list[int],
) -> None:
    live, counts = Live(jvm, script, idle_s=5), []
    for number, rows in enumerate(sets):
        idle = idle_slots if number > 0 else 0
        told = report(
            time_ms=1_000 * every_s * number, sets=rows, slots=slots, caps={"a": {"user bob": 2}},
            idle_ms=2_000 * idle, idle_slots=idle,
        )  # fmt: skip
        counts.append(live.tell(told, "plan")["in_a_row"])
    assert counts == failures


def test_a_stage_that_waits_for_its_first_decision_ends_a_pause(jvm: Talk) -> None:
    """Other news can wait: tiny jobs bring several reports each, and need no decision."""
    assert not jvm.ask({"pause": "touch"})
    assert jvm.ask({"pause": "urge"})


# --- what is written to a decision log ------------------------------------------------------------


HEADER = {"format": "decima-decisions", "version": 3, "mode": "exact", "policy": "p",
          "parameters": {}, "ran": "p"}  # fmt: skip


def write(
    jvm: Talk, path: Path, plans: int, run: str, max_bytes: int = 1 << 20, files: int = 8
) -> str | None:
    """Write a log of so many plans; why it is refused, or None."""
    log = {"path": str(path), "max_bytes": max_bytes, "files": files}
    refusal: str | None = jvm.ask({"log": log, "header": {**HEADER, "run": run}})
    if refusal is None:
        rows = [plan_row(number, 5_000, slots=2) for number in range(1, plans + 1)]
        assert jvm.ask({"lines": [json.dumps(row) for row in rows]})
    return refusal


def test_a_full_log_is_put_aside_and_read_in_order(jvm: Talk, tmp_path: Path) -> None:
    """Files of bounded size, of which the newest few are kept; those of an earlier run are not
    read.
    """
    path = tmp_path / "log.jsonl"
    for run, plans in (("a", 99), ("b", 7)):
        assert write(jvm, path, plans, run, max_bytes=1_500, files=4) is None
        files = sorted(tmp_path.iterdir())
        assert [file.name for file in files] == [
            "log.jsonl", "log.jsonl.1", "log.jsonl.2", "log.jsonl.3"]  # fmt: skip
        assert all(file.stat().st_size < 1_500 for file in files)
        numbers = [plan.number for plan in read_decision_log(path).plans]
        assert numbers == list(range(numbers[0], plans + 1))
        assert len(numbers) > 20 if run == "a" else numbers[0] == 1


def test_a_log_is_for_its_owner_alone(jvm: Talk, tmp_path: Path) -> None:
    """Names of jobs may be the text of queries."""
    for run in ("a", "b"):
        write(jvm, tmp_path / "log.jsonl", 1, run)
    assert {file.name: file.stat().st_mode & 0o777 for file in tmp_path.iterdir()} == {
        "log.jsonl": 0o600, "log.jsonl.1": 0o600,
    }  # fmt: skip


def test_a_log_that_is_moved_begins_anew_and_ends_with_its_folder(
    jvm: Talk, tmp_path: Path
) -> None:
    """Lines of a file that nobody can find any more would be lost without a word."""
    folder = tmp_path / "logs"
    path, moved = folder / "log.jsonl", folder / "moved.jsonl"
    folder.mkdir()
    write(jvm, path, 2, "a")
    path.rename(moved)
    assert jvm.ask({"lines": ["after the move"]})
    path.unlink()
    assert jvm.ask({"lines": ["after the removal", "once more"]})
    header, *lines = path.read_text().splitlines()
    assert ('"run":"a"' in header, lines) == (True, ["after the removal", "once more"])
    shutil.rmtree(folder)
    assert not jvm.ask({"lines": ["nowhere"]})
    assert not folder.exists()


def test_a_log_is_not_written_through_a_link(jvm: Talk, tmp_path: Path) -> None:
    """Neither the first file nor the one that is put aside; what a link leads to stays. A folder
    that is not there is one line, too.
    """
    victim, linked, path = tmp_path / "victim", tmp_path / "linked.jsonl", tmp_path / "log.jsonl"
    victim.write_text("precious")
    linked.symlink_to(victim)
    (tmp_path / "log.jsonl.1").symlink_to(victim)
    away = tmp_path / "no" / "log.jsonl"
    assert str(write(jvm, linked, 1, "a")).startswith(f"decision log {linked}: ")
    assert write(jvm, path, 9, "a", max_bytes=400, files=2) is None
    assert write(jvm, away, 1, "a") == f"decision log {away}: no such folder"
    assert [file.is_symlink() for file in sorted(tmp_path.glob("log.jsonl*"))] == [False, False]
    assert victim.read_text() == "precious"
