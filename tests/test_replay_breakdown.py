"""Where the time of recorded jobs went: logs whose every millisecond is known, and real ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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
from tests.spark_events import Event, executor, gone, simple_job, spark_job, stage, task
from traces import TraceError

FIELD = SHARED / "data"
"""a folder of further logs, which do not ship: they are tested where it is there"""


def failed(row: int, begin: int, until: int, **info: Any) -> Event:
    """An attempt at a task of stage 0 that fails."""
    return task(0, row, begin, until, **{"reason": "ExceptionFailure", **info})


def alone(stages: list[Event], *ran: Event) -> list[Event]:
    """The only job, submitted at 0."""
    return spark_job(0, 0, stages, *ran)


ONE, TWO = executor(cores=1), executor(cores=2)
CHAIN = [stage(0, 1), stage(1, 2, [0])]
COPY: dict[str, Any] = {"on": "2", "reason": "TaskKilled", "Speculative": True}
STORIES: dict[str, tuple[list[Event], list[dict[str, int]]]] = {
    # Tasks of 100, 100 and 250 ms after 10 ms of the driver, and 5 ms of it at the end.
    "tasks up to the median run and longer ones straggle": (
        [executor(cores=3), *simple_job(0, 0, [(10, 110), (10, 110), (10, 260)], ends=265)],
        [{"running": 100, "stragglers": 150, "driver": 15}],
    ),
    # No executor for 1 s; its two slots go to the first job, and to the second as it ends.
    "a job waits for executors, then for other jobs": (
        [
            executor(cores=2, at=1000),
            *simple_job(0, 0, [(1000, 2000), (1000, 2000)]),
            *simple_job(1, 500, [(2000, 2300)]),
        ],
        [
            {"executors": 1000, "running": 1000},
            {"executors": 500, "other_jobs": 1000, "running": 300},
        ],
    ),
    "a job that is left out, as it has not ended, holds its slot": (
        [ONE, *simple_job(1, 0, [(0, 400)])[:-1], *simple_job(2, 100, [(400, 500)])],
        [{"other_jobs": 300, "running": 100}],
    ),
    # One task for 100 ms on two slots, then two: the second slot had nothing to do until then.
    "stages that wait while slots are free are the job's own": (
        [TWO, *alone(CHAIN, task(0, 0, 0, 100), task(1, 0, 130, 180), task(1, 1, 130, 180))],
        [{"own_stages": 100, "driver": 30, "running": 50}],
    ),
    # The second task starts 40 ms late; then one of three slots is free, and a stage waits.
    "stages are not waited for while a task may start": (
        [
            executor(cores=3),
            *alone(
                [stage(0, 2), stage(1, 1, [0])],
                task(0, 0, 0, 100),
                task(0, 1, 40, 100),
                task(1, 0, 100, 150),
            ),
        ],
        [{"running": 40 + 50, "own_stages": 60}],
    ),
    # The first stage runs again at last; until then it was done, and the others wait in turn.
    "what will be lost does not wait before": (
        [
            TWO,
            *alone(
                [stage(0, 1), stage(1, 1, [0]), stage(2, 1, [0, 1])],
                task(0, 0, 0, 100),
                task(1, 0, 100, 200),
                task(0, 0, 200, 300, attempt=1),
                task(2, 0, 300, 350),
            ),
        ],
        [{"own_stages": 200, "failed": 100, "running": 50}],
    ),
    # Both together take 140 ms, the copy 100.
    "a copy goes on where its task fails": (
        [TWO, *alone([stage(0, 1)], failed(0, 0, 60), task(0, 0, 40, 140, Speculative=True))],
        [{"running": 100, "failed": 40}],
    ),
    **{
        f"a retry after {ms} ms costs what its task took too long": (
            [ONE, *alone([stage(0, 1)], failed(0, 0, ms), task(0, 0, ms, ms + 100))],
            [{"running": 100, "failed": ms}],
        )
        for ms in (100, 20, 300)
    },
    "a failure beside tasks that run costs no time": (
        [TWO, *alone([stage(0, 2)], failed(0, 0, 30), task(0, 0, 30, 80), task(0, 1, 0, 80))],
        [{"running": 65, "stragglers": 15}],
    ),
    # The second stage fails at once, as half of the first's output is lost, which runs again.
    "stages done again after a lost executor are failed work": (
        [
            ONE,
            executor("2", cores=1),
            *alone(
                [stage(0, 2), stage(1, 1, [0])],
                task(0, 0, 0, 100),
                task(0, 1, 0, 100, on="2"),
                gone("2", 105),
                task(1, 0, 100, 120, reason="FetchFailed"),
                task(0, 1, 120, 220, attempt=1),
                task(1, 0, 220, 290, attempt=1),
            ),
        ],
        [{"running": 100 + 70, "failed": 20 + 100}],
    ),
    # A copy of 50 ms ends a task of 200 ms.
    "a copy that wins": (
        [
            TWO,
            *alone(
                [stage(0, 1)],
                task(0, 0, 150, 200, Speculative=True),
                failed(0, 0, 200, reason="TaskKilled"),
            ),
        ],
        [{"running": 50, "failed": 150}],
    ),
    # It holds the slot of the next stage's task.
    "a copy that loses": (
        [
            ONE,
            executor("2", cores=1),
            *alone(
                CHAIN,
                task(0, 0, 0, 100),
                failed(0, 80, 160, **COPY),
                task(1, 0, 160, 200, on="2"),
                task(1, 1, 160, 200),
            ),
        ],
        [{"own_stages": 80, "running": 20 + 40, "driver": 60}],
    ),
    # The copy holds the only other slot, and the next task may use no other.
    "what a job no longer needs and still holds is failed work": (
        [
            TWO,
            *alone(
                [stage(0, 2), stage(1, 1, [0])],
                task(0, 0, 0, 100),
                task(0, 1, 0, 100),
                failed(1, 50, 180, **COPY),
                executor("2", cores=1),
                gone("1", 100),
                task(1, 0, 180, 200, on="2"),
            ),
        ],
        [{"own_stages": 50, "running": 50 + 20, "failed": 80}],
    ),
}
"""events, and the parts of each job that are not 0, in milliseconds"""


@pytest.mark.parametrize(("events", "expected"), STORIES.values(), ids=STORIES)
def test_the_time_of_a_job_is_divided_as_by_hand(
    events: list[Event], expected: list[dict[str, int]], tmp_path: Path
) -> None:
    parts = [
        {name: ms for name, ms in zip(PARTS, parts_ms, strict=True) if ms > 0}
        for parts_ms in read_events(tmp_path, *events).breakdowns
    ]
    assert parts == expected


@pytest.mark.parametrize(
    "path", sorted(FIELD.glob("field-logs*/*")), ids=lambda path: "-".join(path.parts[-2:])
)
def test_the_parts_of_a_field_log_add_up_to_the_jct(path: Path) -> None:
    try:
        recording = read_recording([path])
    except TraceError:
        pytest.skip("no event log that can be read")
    parts_ms = np.array(recording.breakdowns)
    assert (parts_ms >= 0).all()
    np.testing.assert_allclose(parts_ms.sum(axis=1), recording.recorded_ms, rtol=0.01, atol=1e-6)


def test_parts_have_one_name_each() -> None:
    assert [name.removesuffix("_ms") for name in Breakdown._fields] == list(PARTS)


def with_failures(folder: Path) -> Recording:
    """Three tasks of 100 ms and one of 300 ms on one slot; one fails after 200 ms, and runs again.

    The job lasts 800 ms.
    """
    return read_events(
        folder,
        ONE,
        *spark_job(
            0,
            0,
            [stage(0, 4)],
            *(task(0, k, 100 * k, 100 * k + 100) for k in range(2)),
            failed(2, 200, 400),
            task(0, 3, 400, 700),
            task(0, 2, 700, 800),
            spark_scheduler_pool="etl",
        ),
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
