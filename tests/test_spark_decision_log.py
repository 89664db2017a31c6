"""What the JVM writes to a decision log: files of bounded size, for their owner alone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from decima.spark.decision_log import read_decision_log
from tests.decision_logs import plan_row
from tests.jvm import Talk

pytestmark = pytest.mark.real_spark

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
