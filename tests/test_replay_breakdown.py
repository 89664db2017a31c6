"""Where the time of recorded jobs went: logs whose every millisecond is known, and real ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from decima.report.page import page
from decima.report.whatif import breakdown_section
from decima.whatif.replay import Recording, ReplaySettings, read_recording, replay
from decima.whatif.replay.breakdown import PARTS, Breakdown
from decima.whatif.replay.losses import losses
from decima.whatif.replay.report import parts_table, parts_words
from tests.commands import cells_of
from tests.conftest import SHARED
from tests.recordings import read_events, short_behind_long
from tests.spark_events import (
    EPOCH,
    Event,
    end,
    event,
    executor,
    simple_job,
    stage,
    start,
    submitted,
    task,
)
from traces import TraceError

REAL = Path(__file__).parent / "data" / "spark_logs"
FIELD = SHARED / "data"
"""a folder of further logs, which do not ship: they are tested where it is there"""
WITHIN = 0.01


def parts_of(folder: Path, *events: Event) -> list[dict[str, float]]:
    """The parts of each job in a log that are not 0, in milliseconds."""
    return [
        {name: ms for name, ms in zip(PARTS, parts_ms, strict=True) if ms > 0}
        for parts_ms in read_events(folder, *events).breakdowns
    ]


def gone(name: str, at: int) -> Event:
    return event("ExecutorRemoved", **{"Timestamp": EPOCH + at, "Executor ID": name})


def test_tasks_up_to_the_median_run_and_longer_ones_straggle(tmp_path: Path) -> None:
    """Tasks of 100, 100 and 250 ms after 10 ms of the driver, and 5 ms of it at the end."""
    tasks = [(10, 110), (10, 110), (10, 260)]
    (parts,) = parts_of(tmp_path, executor(cores=3), *simple_job(0, 0, tasks, ends=265))
    assert parts == {"running": 100, "stragglers": 150, "driver": 15}


def test_a_job_waits_for_executors_then_for_other_jobs(tmp_path: Path) -> None:
    """No executor for 1 s; its two slots go to the first job, and to the second as it ends."""
    first, second = parts_of(
        tmp_path,
        executor(cores=2, at=1000),
        *simple_job(0, 0, [(1000, 2000), (1000, 2000)]),
        *simple_job(1, 500, [(2000, 2300)]),
    )
    assert first == {"executors": 1000, "running": 1000}
    assert second == {"executors": 500, "other_jobs": 1000, "running": 300}


def test_slots_of_jobs_that_are_left_out_are_held_by_others(tmp_path: Path) -> None:
    """One that has not ended holds the only slot."""
    unfinished = [start(1, 0, [stage(1, 1)]), submitted(1, 1), task(1, 0, 0, 400)]
    (parts,) = parts_of(tmp_path, executor(cores=1), *unfinished, *simple_job(2, 100, [(400, 500)]))
    assert parts == {"other_jobs": 300, "running": 100}


def test_stages_that_wait_while_slots_are_free_are_the_jobs_own(tmp_path: Path) -> None:
    """One task for 100 ms on two slots, then two: the second slot had nothing to do until then."""
    (parts,) = parts_of(
        tmp_path,
        executor(cores=2),
        start(0, 0, [stage(0, 1), stage(1, 2, [0])]),
        submitted(0, 1),
        task(0, 0, 0, 100),
        submitted(1, 2),
        task(1, 0, 130, 180),
        task(1, 1, 130, 180),
        end(0, 180),
    )
    assert parts == {"own_stages": 100, "driver": 30, "running": 50}


def test_stages_are_not_waited_for_while_a_task_may_start(tmp_path: Path) -> None:
    """The second task starts 40 ms late; then one of three slots is free, and a stage waits."""
    (parts,) = parts_of(
        tmp_path,
        executor(cores=3),
        start(0, 0, [stage(0, 2), stage(1, 1, [0])]),
        submitted(0, 2),
        task(0, 0, 0, 100),
        task(0, 1, 40, 100),
        submitted(1, 1),
        task(1, 0, 100, 150),
        end(0, 150),
    )
    assert parts == {"running": 40 + 50, "own_stages": 60}


def test_what_will_be_lost_does_not_wait_before(tmp_path: Path) -> None:
    """The first stage runs again at last; until then it was done, and the others wait in turn."""
    (parts,) = parts_of(
        tmp_path,
        executor(cores=2),
        start(0, 0, [stage(0, 1), stage(1, 1, [0]), stage(2, 1, [0, 1])]),
        submitted(0, 1),
        task(0, 0, 0, 100),
        submitted(1, 1),
        task(1, 0, 100, 200),
        submitted(0, 1, 1),
        task(0, 0, 200, 300, attempt=1),
        submitted(2, 1),
        task(2, 0, 300, 350),
        end(0, 350),
    )
    assert parts == {"own_stages": 200, "failed": 100, "running": 50}


def test_a_copy_goes_on_where_its_task_fails(tmp_path: Path) -> None:
    """Both together take 140 ms, the copy 100."""
    (parts,) = parts_of(
        tmp_path,
        executor(cores=2),
        start(0, 0, [stage(0, 1)]),
        submitted(0, 1),
        task(0, 0, 0, 60, reason="ExceptionFailure"),
        task(0, 0, 40, 140, Speculative=True),
        end(0, 140),
    )
    assert parts == {"running": 100, "failed": 40}


@pytest.mark.parametrize(("fails_after", "failed"), [(100, 100), (20, 20), (300, 300)])
def test_a_retry_costs_what_its_task_took_too_long(
    fails_after: int, failed: int, tmp_path: Path
) -> None:
    """An attempt that fails after so long, then one of 100 ms."""
    (parts,) = parts_of(
        tmp_path,
        executor(cores=1),
        start(0, 0, [stage(0, 1)]),
        submitted(0, 1),
        task(0, 0, 0, fails_after, reason="ExceptionFailure"),
        task(0, 0, fails_after, fails_after + 100),
        end(0, fails_after + 100),
    )
    assert parts == {"running": 100, "failed": failed}


def test_a_failure_beside_tasks_that_run_costs_no_time(tmp_path: Path) -> None:
    (parts,) = parts_of(
        tmp_path,
        executor(cores=2),
        start(0, 0, [stage(0, 2)]),
        submitted(0, 2),
        task(0, 0, 0, 30, reason="ExceptionFailure"),
        task(0, 0, 30, 80),
        task(0, 1, 0, 80),
        end(0, 80),
    )
    assert parts == {"running": 65, "stragglers": 15}


def test_stages_done_again_after_a_lost_executor_are_failed_work(tmp_path: Path) -> None:
    """The second stage fails at once, as half of the first's output is lost, which runs again."""
    (parts,) = parts_of(
        tmp_path,
        executor("1", cores=1),
        executor("2", cores=1),
        start(0, 0, [stage(0, 2), stage(1, 1, [0])]),
        submitted(0, 2),
        task(0, 0, 0, 100, on="1"),
        task(0, 1, 0, 100, on="2"),
        gone("2", 105),
        submitted(1, 1),
        task(1, 0, 100, 120, on="1", reason="FetchFailed"),
        submitted(0, 1, 1),
        task(0, 1, 120, 220, on="1", attempt=1),
        submitted(1, 1, 1),
        task(1, 0, 220, 290, on="1", attempt=1),
        end(0, 290),
    )
    assert parts == {"running": 100 + 70, "failed": 20 + 100}


def test_a_copy_that_wins_and_one_that_loses(tmp_path: Path) -> None:
    """A copy of 50 ms ends a task of 200 ms; another loses, and holds the slot of the next."""
    (won,) = parts_of(
        tmp_path,
        executor(cores=2),
        start(0, 0, [stage(0, 1)]),
        submitted(0, 1),
        task(0, 0, 150, 200, Speculative=True),
        task(0, 0, 0, 200, reason="TaskKilled"),
        end(0, 200),
    )
    assert won == {"running": 50, "failed": 150}
    (lost,) = parts_of(
        tmp_path,
        executor(cores=1),
        executor("2", cores=1),
        start(0, 0, [stage(0, 1), stage(1, 2, [0])]),
        submitted(0, 1),
        task(0, 0, 0, 100),
        task(0, 0, 80, 160, on="2", reason="TaskKilled", Speculative=True),
        submitted(1, 2),
        task(1, 0, 160, 200, on="2"),
        task(1, 1, 160, 200, on="1"),
        end(0, 200),
    )
    assert lost == {"own_stages": 80, "running": 20 + 40, "driver": 60}


def test_what_a_job_no_longer_needs_and_still_holds_is_failed_work(tmp_path: Path) -> None:
    """The copy holds the only other slot, and the next task may use no other."""
    (parts,) = parts_of(
        tmp_path,
        executor(cores=2),
        start(0, 0, [stage(0, 2), stage(1, 1, [0])]),
        submitted(0, 2),
        task(0, 0, 0, 100),
        task(0, 1, 0, 100),
        task(0, 1, 50, 180, on="2", reason="TaskKilled", Speculative=True),
        executor("2", cores=1),
        gone("1", 100),
        submitted(1, 1),
        task(1, 0, 180, 200, on="2"),
        end(0, 200),
    )
    assert parts == {"own_stages": 50, "running": 50 + 20, "failed": 80}


LOGS = [*sorted(REAL.iterdir()), *sorted(FIELD.glob("field-logs*/*"))]


@pytest.mark.parametrize("path", LOGS, ids=lambda path: "-".join(path.parts[-2:]))
def test_the_parts_of_every_job_add_up_to_its_jct(path: Path) -> None:
    try:
        recording = read_recording([path])
    except TraceError:
        assert FIELD in path.parents, "a log that ships"
        pytest.skip("no event log that can be read")
    parts_ms = np.array(recording.breakdowns)
    assert parts_ms.shape == (len(recording.trace.jobs), len(PARTS))
    assert (parts_ms >= 0).all()
    np.testing.assert_allclose(parts_ms.sum(axis=1), recording.recorded_ms, rtol=WITHIN, atol=1e-6)


def test_parts_have_one_name_each() -> None:
    assert [name.removesuffix("_ms") for name in Breakdown._fields] == list(PARTS)


def with_failures(folder: Path) -> Recording:
    """Three tasks of 100 ms and one of 300 ms on one slot; one fails after 200 ms, and runs again.

    The job lasts 800 ms.
    """
    return read_events(
        folder,
        executor(cores=1),
        start(0, 0, [stage(0, 4)], spark_scheduler_pool="etl"),
        submitted(0, 4),
        *(task(0, k, 100 * k, 100 * k + 100) for k in range(2)),
        task(0, 2, 200, 400, reason="ExceptionFailure"),
        task(0, 3, 400, 700),
        task(0, 2, 700, 800),
        end(0, 800),
    )


def test_what_failed_work_and_stragglers_cost_is_replayed(tmp_path: Path) -> None:
    """Without the failure 600 of 800 ms, and 400 with no task longer than the median."""
    recording, settings = with_failures(tmp_path), ReplaySettings(draws=2)
    check = replay(recording, settings)
    lost = losses(check, settings)
    assert lost is not None
    assert lost.without_failures_s is not None
    averages_s = (lost.as_recorded_s, lost.without_failures_s, lost.without_stragglers_s)
    assert [values_s.tolist() for values_s in averages_s] == [[0.8] * 2, [0.6] * 2, [0.4] * 2]
    assert (
        "Without failed work, it would change by -25 %; without stragglers as well, by -50 %"
        in (lost.words())
    )
    assert lost.to_json()["without_failures_percent"] == {
        "mean": pytest.approx(-25.0), "ci95": None,
    }  # fmt: skip


def test_a_replay_that_fails_tells_no_losses(tmp_path: Path) -> None:
    recording, settings = with_failures(tmp_path), ReplaySettings(slots=2, draws=1)
    assert losses(replay(recording, settings), settings) is None
    made = short_behind_long(4)
    assert losses(replay(made, settings), settings) is None, "the attempts are not known"


def test_the_table_and_the_page_of_the_parts(tmp_path: Path) -> None:
    """A pool where the log names one; parts that are nothing everywhere have no column."""
    recording = with_failures(tmp_path)
    assert cells_of(parts_table(recording, 5)) == [
        ["job", "pool", "JCT", "running", "stragglers", "failed work"],
        ["all jobs, on average", "", "0.80 s", "50 %", "25 %", "25 %"],
        ["shop/unnamed job 0", "etl", "0.80 s", "50 %", "25 %", "25 %"],
    ]
    assert parts_words(recording) == (
        "Where the time went: running 50 %, stragglers 25 %, failed work 25 %."
    )
    section = breakdown_section(recording, None)
    (chart,) = section.charts
    for shares in chart.to_json()["shares"].values():
        assert sum(shares.values()) == pytest.approx(1.0)
    text = page([section], title="t", command="c")
    assert "<td>etl</td>" in text
    for part in PARTS.values():
        assert f"<dt>{part.label}</dt>" in text
