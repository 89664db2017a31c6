"""Loading any trace by name or path."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.test_decima_sim_import import waves, write_query
from traces import Job, Stage, Trace, TraceError, catalog, list_builtin, load_trace, write_trace

EXAMPLES = Path(__file__).parents[1] / "docs" / "examples"


@pytest.fixture
def small() -> Trace:
    return Trace("small", (Job("j", (Stage.fixed("s", 1, 5.0),)),))


@pytest.mark.parametrize("name", sorted(list_builtin()))
def test_every_builtin_trace_loads_and_is_always_the_same(name: str) -> None:
    first, again = load_trace(name), load_trace(name)
    assert first.name == name
    assert [job.name for job in first.jobs] == [job.name for job in again.jobs]
    assert [job.work_ms for job in first.jobs] == [job.work_ms for job in again.jobs]
    assert list_builtin()[name]


def test_a_file_dropped_into_the_data_folder_is_builtin(
    tmp_path: Path, small: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog, "DATA_FOLDER", tmp_path)
    write_trace(small, tmp_path / "recorded-one.parquet")
    assert next(iter(list_builtin())) == "recorded-one"
    assert load_trace("recorded-one").jobs[0].name == "j"


def test_files_are_read_by_suffix(tmp_path: Path, small: Trace) -> None:
    write_trace(small, tmp_path / "small.parquet")
    shutil.copy(EXAMPLES / "jobs.csv", tmp_path / "JOBS.CSV")
    assert load_trace(tmp_path / "small.parquet").name == "small"
    assert load_trace(str(tmp_path / "JOBS.CSV")).name == "JOBS"
    assert load_trace(EXAMPLES / "jobs.json").name == "example"


def test_a_folder_is_taken_for_decima_sims(tmp_path: Path) -> None:
    write_query(tmp_path, 1, [[0]], {0: waves({5: [1]}, {5: []})})
    assert load_trace(tmp_path).jobs[0].name == f"{tmp_path.name}/q1"


def test_a_path_wins_over_a_name_when_it_looks_like_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`tpch-like` is the built-in trace even where a file has that name; `./tpch-like` is not."""
    (tmp_path / "tpch-like").write_text("x")
    monkeypatch.chdir(tmp_path)
    assert len(load_trace("tpch-like").jobs) == 154
    with pytest.raises(TraceError, match="suffix ''"):
        load_trace("./tpch-like")
