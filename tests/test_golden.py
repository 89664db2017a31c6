"""Recorded runs of decima-sim are repeated exactly, and a difference is not overlooked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.golden import check_file, main

FILES = (
    "syn_1jobs_batch.json",
    "syn_5jobs_batch.json",
    "syn_5jobs_stream.json",
    "flat_1jobs_batch.json",
    "flat_5jobs_batch.json",
    "flat_5jobs_stream.json",
)


def test_the_shipped_runs_are_repeated(golden_file: Path) -> None:
    """Every completion time, and hashes of every decision and task, as decima-sim gave them."""
    runs, faults = check_file(golden_file)
    assert (runs, faults) == (11, [])


@pytest.mark.parametrize("name", FILES)
def test_recorded_runs_are_repeated(golden_folder: Path, name: str) -> None:
    """Every completion time, decision and task of every run of the file."""
    runs, faults = check_file(golden_folder / name)
    assert runs > 10
    assert faults == []


@pytest.mark.parametrize(
    ("figure", "value"),
    [
        ("completion_ms", [1]),
        ("decisions_sha256", "0" * 64),
        ("deadlock", True),
    ],
)
def test_a_changed_figure_is_a_mismatch(
    golden_file: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    figure: str,
    value: object,
) -> None:
    """One figure of one run is altered: one line says which, and the exit code is 1."""
    content = json.loads(golden_file.read_text())
    content["runs"] = content["runs"][:2]
    content["runs"][1]["result"][figure] = value
    changed = tmp_path / "changed.json"
    changed.write_text(json.dumps(content))

    code = main([str(changed)])

    lines = capsys.readouterr().out.splitlines()
    assert code == 1
    assert len(lines) == 1
    assert lines[0].startswith(f"{changed}: 1 of 2 runs identical; first: ")
    assert figure in lines[0]
