"""`decima whatif --each`: many applications, each by itself."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from decima.rl.parallel.local import HERE, LocalPool
from decima.whatif.each import COPY, GONE, NO_JOBS, UNFINISHED, Ask, look_at_each
from tests.commands import decima, refused, succeeded
from tests.spark_events import (
    Event,
    closing,
    executor,
    simple_job,
    stage,
    start,
    started,
    write,
)

FEW = ("--draws", 2, "--sequences", 2)


def job(number: int, at: int, tasks: int, first: int, task_ms: int) -> list[Event]:
    """A Spark job on two slots, of which its first task starts at `first`."""
    begins = [first + row // 2 * task_ms for row in range(tasks)]
    return simple_job(number, at, [(begin, begin + task_ms) for begin in begins])


def waiting(scale: int = 1) -> list[Event]:
    """A long job before two short ones: under FIFO they wait for it."""
    return [
        executor(cores=2),
        *job(0, 0, 20, 0, 1000 * scale),
        *job(1, 500, 2, 10_000 * scale, 1000 * scale),
        *job(2, 500, 2, 11_000 * scale, 1000 * scale),
    ]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two applications that would gain, one that would not, and five logs of no use."""
    logs = tmp_path / "logs"
    logs.mkdir()
    write(logs / "a", [*started("etl", "app-a"), *waiting(), closing(12_000)])
    write(logs / "b", [*started("etl", "app-b"), *waiting(10), closing(120_000)])
    write(
        logs / "c", [*started("alone", "app-c"), executor(), *job(0, 0, 4, 0, 1000), closing(2000)]
    )
    shutil.copy(logs / "a", logs / "copy of a")
    write(logs / "d.inprogress", [*started("long", "app-d"), executor(), *job(0, 0, 2, 0, 9)[:2]])
    write(logs / "e", [*started("idle", "app-e"), closing(10)])
    (logs / "f").write_text("nothing of Spark\n" * 3)
    (logs / "g").write_bytes(b"\x28\xb5\x2f\xfd damaged")
    return logs


def test_applications_are_ranked_by_the_time_that_their_jobs_save(folder: Path) -> None:
    looks = look_at_each(Ask((folder,)))
    assert [looks.label(look) for look in looks.gaining()] == ["b", "a"], "by their logs: one name"
    best = looks.gaining()[0]
    assert (best.reference, best.jobs, best.tasks) == ("fifo", 3, 24)
    # Short first: the long one ends 1 s x 10 later or so, the short ones wait next to nothing.
    assert best.saved_s == pytest.approx(10 * looks.gaining()[1].saved_s, rel=0.01)
    assert best.saved_s > 100
    assert [looks.label(look) for look in looks.used] == ["a", "b", "alone"]
    assert sum(looks.parts_s().values()) == pytest.approx(32 + 329 + 2)


def test_logs_of_one_name_in_several_folders_are_told_apart(tmp_path: Path) -> None:
    for number in range(2):
        (tmp_path / str(number)).mkdir()
        write(tmp_path / str(number) / "log", [*started("etl", f"app-{number}"), *waiting()])
    looks = look_at_each(Ask((tmp_path,)))
    paths = [str(tmp_path / str(number) / "log") for number in range(2)]
    assert [looks.label(look) for look in looks.used] == paths


def test_what_is_not_used_is_counted_by_its_reason(folder: Path) -> None:
    reasons = look_at_each(Ask((folder,))).reasons()
    by_reason = {reason: [Path(name).name for name in names] for reason, names in reasons.items()}
    assert by_reason[COPY] == ["copy of a"]
    assert by_reason[UNFINISHED] == ["d.inprogress"]
    assert by_reason[NO_JOBS] == ["e"]
    assert by_reason["not a Spark event log: the line is no Spark event"] == ["f"]
    assert len(by_reason) == 5
    assert all(str(folder) not in reason for reason in reasons)


def test_jobs_of_an_application_that_never_ended_count(tmp_path: Path) -> None:
    open_end = [*started(), *waiting(), start(3, 12_000, [stage(3, 2)])]
    write(tmp_path / "app.inprogress", open_end)
    (look,) = look_at_each(Ask((tmp_path,))).used
    assert (look.jobs, look.extent.is_complete) == (3, False)
    result = succeeded(decima("whatif", tmp_path, "--each", *FEW))
    assert "1 log without an end: jobs that had ended count." in result.stdout


def test_any_number_of_workers_gives_the_same(folder: Path) -> None:
    with LocalPool(2) as pool:
        assert look_at_each(Ask((folder,)), pool=pool) == look_at_each(Ask((folder,)), pool=HERE)


class RenamingPool(LocalPool):
    """Before its processes look for the logs, one that was in progress gets its last name."""

    def __init__(self, log: Path) -> None:
        super().__init__(2)
        self._log = log

    def map(self, *arguments: Any, label: str) -> Iterator[Any]:
        self._log.rename(self._log.with_suffix(".zstd"))
        return super().map(*arguments, label=label)


def test_a_log_that_is_renamed_meanwhile_does_not_end_the_command(folder: Path) -> None:
    with RenamingPool(folder / "a") as pool:
        looks = look_at_each(Ask((folder,)), pool=pool)
    assert looks.reasons()[GONE] == [str(folder / "a")]
    assert [looks.label(look) for look in looks.gaining()] == ["b", "copy of a"]


def test_one_page_links_to_one_of_each(folder: Path, tmp_path: Path) -> None:
    page, output = tmp_path / "all.html", tmp_path / "all.json"
    result = succeeded(decima("whatif", folder, "--each", *FEW, "--report", page, "--json", output))
    lines = result.stdout.splitlines()
    assert len(lines) <= 24, "one screen"
    words = " ".join(result.stdout.split())
    assert words.startswith("Of 3 applications that can be trusted, 2 would gain")
    assert "8 logs: 3 used (7 jobs), 5 not; 0 not to be trusted" in words
    assert "Where the time went: other jobs" in words
    pages = sorted(path.name for path in (tmp_path / "all_pages").iterdir())
    assert pages == ["01-b.html", "02-a.html"]
    for name in pages:
        assert f'href="all_pages/{name}"' in page.read_text()
    content = json.loads(output.read_text())
    assert (content["format"], content["version"]) == ("decima-whatif-each", 1)
    assert [Path(row["log"]).name for row in content["most_gaining"]] == ["b", "a"]
    assert [row["jobs"] for row in content["applications"]] == [3, 3, 1]
    assert sum(map(len, content["not_used"].values())) == 5


def test_without_each_several_logs_are_one_workload(folder: Path) -> None:
    result = succeeded(decima("whatif", folder / "a", folder / "c", *FEW, "--explain"))
    assert "4 jobs" in result.stdout
    assert "of 2 applications" in " ".join(result.stdout.split())


def test_folders_of_no_use_are_one_line(folder: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    refused(decima("whatif", empty, "--each"), "the folder holds no event log")
    shutil.copy(folder / "f", empty)
    refused(decima("whatif", empty, "--each"), "none of 1 logs can be used")
