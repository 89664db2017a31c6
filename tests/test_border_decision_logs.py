"""Decision logs at the border: within named bounds, impossible times and names refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from decima.cli.main import main
from decima.spark import decision_log
from decima.spark.decision_log import read_decision_log
from decima.spark.settings import AttachError
from tests.commands import refused


def test_a_decision_log_is_read_within_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bound is on all its files together; one long line is one more."""
    path = decision_log_at(tmp_path)
    size = path.stat().st_size
    (tmp_path / "log.jsonl.1").write_bytes(path.read_bytes())
    monkeypatch.setattr(decision_log, "MAX_BYTES", 2 * size)
    assert len(read_decision_log(path).plans) == 2
    monkeypatch.setattr(decision_log, "MAX_BYTES", 2 * size - 1)
    refused(review(path), f"more than {size - 1:,} bytes of content are not read")
    path.write_bytes(b"1" * 2**25)
    refused(review(path), "log.jsonl:1: a line of more than 16,777,216 bytes is not read")


HEAD = {
    "format": "decima-decisions",
    "version": 2,
    "run": "ab",
    "mode": "exact",
    "policy": "es_rule",
    "parameters": {},
    "ran": "es_rule",
}


PLAN = {
    "plan": 1,
    "time_ms": 1000,
    "applied_ms": [1000, 1003],
    "slots": 4,
    "by": "es_rule",
    "fault": None,
    "sets": [[0, 0, "k1", 4, 1, 2, False]],
    "chosen": [0],
    "limits": {"k1": 3},
    "in_force": True,
}


JOB: dict[str, Any] = {
    "job": "k1",
    "name": "n1",
    "arrival_ms": 1000,
    "completion_ms": 6000,
    "own_ms": 100,
    "stages": [
        {"num_tasks": 4, "parents": [], "mean_ms": 1000.0},
        {"num_tasks": 2, "parents": [0], "mean_ms": None},
    ],
}


def decision_log_at(folder: Path, *rows: Any) -> Path:
    path = folder / "log.jsonl"
    lines = [json.dumps(row) for row in rows or (HEAD, PLAN, JOB)]
    path.write_text("\n".join(lines) + "\n")
    return path


def review(path: Path) -> Any:
    return CliRunner().invoke(main, ["spark", "review", str(path)])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"completion_ms": 999}, "completion_ms 999 lies before arrival_ms 1000"),
        ({"completion_ms": -6000}, "completion_ms is -6000: a whole number from 0"),
        ({"own_ms": -1}, "own_ms is -1: a whole number from 0"),
        ({"own_ms": 5001}, "own_ms 5001 is more than the 5000 ms that it took"),
        ({"own_ms": -1e300}, "own_ms is -1e+300: a whole number"),
        ({"own_ms": 2**64}, "own_ms is 18446744073709551616: a whole number"),
        ({"arrival_ms": 2**53 + 1}, "arrival_ms is 9007199254740993: a whole number from 0 to"),
        ({"arrival_ms": "1000"}, "arrival_ms is '1000': a whole number"),
        ({"arrival_ms": True}, "arrival_ms is True: a whole number"),
        ({"job": 7}, "job is 7: text is needed"),
        ({"name": None}, "name is None: text is needed"),
    ],
)
def test_a_logged_job_is_one_that_can_be(
    change: dict[str, Any], words: str, tmp_path: Path
) -> None:
    path = decision_log_at(tmp_path, HEAD, PLAN, JOB | change)
    refused(review(path), f"{path}: line 3: ", words)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"mean_ms": 1e18}, "mean_ms is 1e+18: a time from 0 to 9,007,199,254,740,992"),
        ({"mean_ms": -1}, "mean_ms is -1: a time"),
        ({"mean_ms": "1"}, "mean_ms is '1': a time"),
        ({"num_tasks": 2**63}, "num_tasks is 9223372036854775808: a whole number"),
        ({"num_tasks": 2.5}, "num_tasks is 2.5: a whole number"),
        ({"num_tasks": 0}, "0 tasks, a stage has between 1 and"),
        ({"parents": [0]}, "is its own parent"),
        ({"parents": 2}, "damaged: TypeError"),
    ],
)
def test_a_logged_stage_is_one_that_can_be(
    change: dict[str, Any], words: str, tmp_path: Path
) -> None:
    path = decision_log_at(tmp_path, HEAD, PLAN, JOB | {"stages": [JOB["stages"][0] | change]})
    refused(review(path), f"{path}: line 3: ", words)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"time_ms": 2**64}, "time_ms is 18446744073709551616: a whole number"),
        ({"time_ms": 1.5}, "time_ms is 1.5: a whole number"),
        ({"slots": -1}, "slots is -1"),
        ({"sets": [[0, 0, {"k1": 1}, 4, 1, 2, False]]}, "sets is {'k1': 1}: text is needed"),
        ({"sets": [[0, 0, "k1", 4, 1, 2**70, False]]}, "sets is 1180591620717411303424"),
        ({"chosen": [None]}, "chosen is None"),
        ({"limits": {"k1": -3}}, "limits is -3"),
        ({"applied_ms": 5}, "damaged: TypeError"),
    ],
)
def test_a_logged_plan_is_one_that_can_be(
    change: dict[str, Any], words: str, tmp_path: Path
) -> None:
    path = decision_log_at(tmp_path, HEAD, PLAN | change, JOB)
    refused(review(path), f"{path}: line 2: ", words)


def test_a_decision_log_with_names_that_no_file_holds(tmp_path: Path) -> None:
    """Lone surrogates and escape sequences are shown as escapes, in the picture as well."""
    odd = "\ud800\x1b[31m"
    rows = (HEAD, PLAN | {"sets": [[0, 0, odd, 4, 1, 2, False]]}, JOB | {"job": odd, "name": odd})
    path = decision_log_at(tmp_path, *rows)
    picture = tmp_path / "slots.svg"
    result = CliRunner().invoke(main, ["spark", "review", str(path), "--draw", str(picture)])
    assert result.exit_code == 0, result.output
    assert "ud800" in picture.read_text()
    with pytest.raises(AttachError, match="not a decision log"):
        read_decision_log(decision_log_at(tmp_path, "x"))
