"""A trace as a folder of parts: whole or not at all, and refused where it is damaged."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import traces.dataset
from tests.commands import decima, refused, succeeded
from tests.shapes import chain, fork_join
from traces import Trace, TraceError, load_trace, read_trace, write_trace
from traces.bounds import Bounds
from traces.dataset import MANIFEST, read_dataset, write_dataset

LOGS = Path(__file__).parent / "data" / "spark_logs"


def several() -> Trace:
    """Four jobs of a few durations each."""
    jobs = (chain("a", (4, 1, 3)), fork_join("b", (2, 5)), chain("c", (1,)), chain("d", (2, 2)))
    return Trace("several", jobs, {"source": "here"})


def test_a_folder_of_parts_is_the_trace_that_was_written(tmp_path: Path) -> None:
    """Jobs in their order, name and metadata; every part is a trace file of its own."""
    folder = tmp_path / "several"
    write_dataset(several(), folder, part_values=10)
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["part-00000.parquet", "part-00001.parquet", "part-00002.parquet", MANIFEST]
    loaded = load_trace(folder)
    write_trace(loaded, tmp_path / "found.parquet")
    write_trace(several(), tmp_path / "given.parquet")
    assert (tmp_path / "found.parquet").read_bytes() == (tmp_path / "given.parquet").read_bytes()
    assert [job.name for job in read_trace(folder / "part-00000.parquet").jobs] == ["a"]


def test_nothing_is_left_of_a_folder_that_could_not_be_written_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[Path] = []

    def write_once(trace: Trace, path: Path) -> None:
        if written:
            raise TraceError("disk full")
        written.append(path)
        write_trace(trace, path)

    monkeypatch.setattr(traces.dataset, "write_trace", write_once)
    with pytest.raises(TraceError, match="disk full"):
        write_dataset(several(), tmp_path / "several", part_values=10)
    assert len(written) == 1
    assert list(tmp_path.iterdir()) == []


def test_what_no_command_could_read_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(traces.dataset, "DEFAULT", Bounds(values=20))
    with pytest.raises(TraceError, match=r"30 durations, of which no command.* 20: keep fewer"):
        write_dataset(several(), tmp_path / "several")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda it: it["parts"][1].update(file="part-00009.parquet"), "cannot read"),
        (lambda it: it["parts"][0].update(jobs=7), "holds 1 jobs, trace.json has 7"),
        (lambda it: it["parts"][0].update(file="../part-00000.parquet"), "is no part of it"),
        (lambda it: it["parts"].append(it["parts"][0]), "is no part of it"),
        (lambda it: it.update(version=2), "version 2, this reader knows 1"),
        (lambda it: it.update(parts=3), "is no part of it"),
        (lambda it: it.update(parts=[]), "holds no job"),
    ],
)
def test_a_damaged_folder_is_refused_in_one_line(
    damage: Callable[[dict[str, Any]], object], words: str, tmp_path: Path
) -> None:
    """Parts are files of this folder, each once, with the jobs that the manifest counts."""
    folder = tmp_path / "several"
    write_dataset(several(), folder, part_values=10)
    manifest = json.loads((folder / MANIFEST).read_text())
    damage(manifest)
    (folder / MANIFEST).write_text(json.dumps(manifest))
    result = decima("traces", "info", folder)
    refused(result, words)


def test_the_bound_on_durations_is_that_of_all_parts(tmp_path: Path) -> None:
    write_dataset(several(), tmp_path / "several", part_values=10)
    limits = Bounds(values=40)
    for part in sorted((tmp_path / "several").glob("*.parquet")):
        read_trace(part, limits)
    with pytest.raises(TraceError, match="values"):
        read_dataset(tmp_path / "several", limits)


def test_logs_are_imported_to_a_folder_as_to_a_file(tmp_path: Path) -> None:
    """A name without suffix makes a folder; a folder that is there is refused before reading."""
    source = LOGS / "spark-4.3-zstd"
    for output in ("logs.parquet", "logs"):
        command = ["traces", "import", "spark", str(source), "-o", str(tmp_path / output)]
        result = succeeded(decima(*command))
    write_trace(load_trace(tmp_path / "logs"), tmp_path / "again.parquet")
    assert (tmp_path / "again.parquet").read_bytes() == (tmp_path / "logs.parquet").read_bytes()
    result = decima(*command)
    refused(result, "logs: is there already")
