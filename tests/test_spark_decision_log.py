"""What the JVM writes to a decision log: files of bounded size, for their owner alone."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from decima.spark.decision_log import read_decision_log
from tests.decision_logs import plan_row
from tests.jvm import Classes

pytestmark = pytest.mark.real_spark

HEADER = {"format": "decima-decisions", "version": 3, "mode": "exact", "policy": "p",
          "parameters": {}, "ran": "p"}  # fmt: skip


def asked(
    path: Path, plans: int, run: str, *, max_bytes: int = 1 << 20, files: int = 8
) -> dict[str, Any]:
    """A log of so many plans."""
    rows = [plan_row(number, 5_000, slots=2) for number in range(1, plans + 1)]
    return {"path": str(path), "max_bytes": max_bytes, "files": files,
            "header": {**HEADER, "run": run}, "rows": rows}  # fmt: skip


def test_a_full_log_is_put_aside_and_read_in_order(classes: Classes, tmp_path: Path) -> None:
    """Files of bounded size, of which the newest few are kept; those of an earlier run are not
    read.
    """
    path, bounds = tmp_path / "log.jsonl", {"max_bytes": 1_500, "files": 4}
    for run, plans in (("a", 99), ("b", 7)):
        assert classes.ask("decima.spark.WriteLog", [asked(path, plans, run, **bounds)]) == [None]
        files = sorted(tmp_path.iterdir())
        assert [file.name for file in files] == [
            "log.jsonl", "log.jsonl.1", "log.jsonl.2", "log.jsonl.3"]  # fmt: skip
        assert all(file.stat().st_size < 1_500 for file in files)
        numbers = [plan.number for plan in read_decision_log(path).plans]
        assert numbers == list(range(numbers[0], plans + 1))
        assert len(numbers) > 20 if run == "a" else numbers[0] == 1


def test_a_log_is_for_its_owner_alone(classes: Classes, tmp_path: Path) -> None:
    """Names of jobs may be the text of queries, whatever the umask allows."""
    path, before = tmp_path / "log.jsonl", os.umask(0o022)
    try:
        classes.ask("decima.spark.WriteLog", [asked(path, 1, run) for run in ("a", "b")])
    finally:
        os.umask(before)
    assert {file.name: file.stat().st_mode & 0o777 for file in tmp_path.iterdir()} == {
        "log.jsonl": 0o600, "log.jsonl.1": 0o600,
    }  # fmt: skip


def test_a_log_that_is_moved_begins_anew_and_ends_with_its_folder(
    classes: Classes, tmp_path: Path
) -> None:
    """Lines of a file that nobody can find any more would be lost without a word."""
    folder = tmp_path / "logs"
    path, moved = folder / "log.jsonl", folder / "moved.jsonl"
    folder.mkdir()
    with classes.talk("decima.spark.WriteLog") as jvm:

        def writes(row: str) -> bool:
            return bool(jvm.ask({"more": True, "rows": [row]}))

        assert jvm.ask(asked(path, 2, "a")) is None
        path.rename(moved)
        assert writes("after the move")
        path.unlink()
        assert writes("after the removal")
        assert writes("once more")
        assert path.read_text().splitlines()[1:] == ['"after the removal"', '"once more"']
        assert '"run":"a"' in path.read_text().splitlines()[0]
        shutil.rmtree(folder)
        assert not writes("nowhere")
        assert not folder.exists()


def test_a_log_is_not_written_through_a_link(classes: Classes, tmp_path: Path) -> None:
    """Neither the first file nor the one that is put aside; what a link leads to stays. A folder
    that is not there is one line, too.
    """
    victim, linked, path = tmp_path / "victim", tmp_path / "linked.jsonl", tmp_path / "log.jsonl"
    victim.write_text("precious")
    linked.symlink_to(victim)
    (tmp_path / "log.jsonl.1").symlink_to(victim)
    away = tmp_path / "no" / "log.jsonl"
    answer = classes.ask(
        "decima.spark.WriteLog",
        [asked(linked, 1, "a"), asked(path, 9, "a", max_bytes=400, files=2), asked(away, 1, "a")],
    )
    assert answer[0].startswith(f"decision log {linked}: ")
    assert answer[1] is None
    assert answer[2] == f"decision log {away}: no such folder"
    assert [file.is_symlink() for file in sorted(tmp_path.glob("log.jsonl*"))] == [False, False]
    assert victim.read_text() == "precious"
