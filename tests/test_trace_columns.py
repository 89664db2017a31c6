"""Columns of a trace: the same jobs, the same rules and the same figures as objects."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from traces import Job, LevelDurations, Stage, Trace, TraceError, load_trace
from traces.columns import (
    Columns,
    Rows,
    StoredJobs,
    children_of,
    columns_of,
    critical_paths_ms,
    joined,
    part_of,
)
from traces.model import longest_paths

TPCH = load_trace("tpch")
HEAVY = load_trace("any-heavy-3")


def small() -> Columns:
    """Two jobs: a fork of three stages, one of them at two levels, and a single stage."""
    low = LevelDurations.of(1, fresh_ms=[30.0, 20.0], rest_ms=[10.0])
    high = LevelDurations.of(4, first_ms=[40.0])
    fork = Job(
        "fork",
        (
            Stage("a", 2, (), (low, high), cpu=1.0),
            Stage.fixed("b", 3, 5.0, [0]),
            Stage.fixed("c", 1, 7.0, [0]),
        ),
        arrival_ms=3.0,
        weight=2.0,
        deadline_ms=80.0,
    )
    return columns_of([fork, Job("one", (Stage.fixed("a", 4, 9.0),))])


Change = Callable[[Columns], Columns]


def changed(name: str, row: int, value: float) -> Change:
    """One number of a column."""

    def change(columns: Columns) -> Columns:
        column = getattr(columns, name).copy()
        column[row] = value
        return columns._replace(**{name: column})

    return change


def parents(values: list[int], start: Sequence[int] = (0, 0, 1, 2, 2)) -> Change:
    """Other parents of the second and third stage."""
    rows = Rows(np.array(start), np.array(values, np.int32))
    return lambda columns: columns._replace(parents=rows)


def durations(row: int, value: float) -> Change:
    """One duration of the rest wave."""

    def change(columns: Columns) -> Columns:
        fresh, first, rest = columns.waves
        values = rest.values.copy()
        values[row] = value
        return columns._replace(waves=(fresh, first, rest._replace(values=values)))

    return change


def renamed(columns: Columns) -> Columns:
    """The third stage called like the first."""
    names = columns.stage_name
    index = names.index.copy()
    index[2] = index[0]
    return columns._replace(stage_name=replace(names, index=index))


BROKEN = {
    "no task": (changed("num_tasks", 1, 0), "0 tasks"),
    "too many tasks": (changed("num_tasks", 3, 10**8), "100000000 tasks"),
    "late": (changed("arrival_ms", 0, -1.0), "arrival -1"),
    "weight 0": (changed("weight", 0, 0.0), "weight 0"),
    "weight nan": (changed("weight", 1, np.nan), "weight nan"),
    "deadline 0": (changed("deadline_ms", 0, 0.0), "deadline 0"),
    "cores": (changed("cpu", 2, np.inf), "cpu inf"),
    "memory": (changed("memory_mb", 3, -4.0), "memory_mb -4"),
    "level": (changed("executors", 0, 0), "executor level 0"),
    "levels fall": (changed("executors", 1, 1), "must increase"),
    "no level": (changed("first_level", 1, 0), "no task duration"),
    "beyond": (parents([0, 3]), "names parent 3"),
    "before": (parents([-1, 0]), "names parent -1"),
    "own parent": (parents([1, 0]), "its own parent"),
    "cycle": (parents([2, 1]), "cycle"),
    "name twice": (renamed, "used twice"),
    "duration": (durations(0, 0.0), "0 ms must be positive"),
    "nan": (durations(2, np.nan), "nan ms"),
    "work": (durations(3, 9e15), "work of"),
    "no stage": (changed("first_stage", 1, 0), "has no stage"),
    "parent twice": (parents([0, 0, 0], (0, 0, 1, 3, 3)), "names a parent twice"),
}


def test_columns_and_objects_are_the_same_jobs() -> None:
    for jobs in ([small().job(0), small().job(1)], TPCH.jobs[:7], HEAVY.jobs[:5]):
        columns = columns_of(jobs)
        again = columns_of([columns.job(row) for row in range(len(jobs))])
        assert [job.name for job in StoredJobs(columns)] == [job.name for job in jobs]
        for own, other in zip(flat(columns), flat(again), strict=True):
            np.testing.assert_array_equal(own, other)


def flat(columns: Columns) -> list[np.ndarray]:
    """All numbers of the columns, and the names."""
    lists = [part for rows in (columns.parents, *columns.waves) for part in rows]
    names = [np.array(column.listed()) for column in (columns.job_name, columns.stage_name)]
    return [*(column for column in columns if isinstance(column, np.ndarray)), *lists, *names]


@pytest.mark.parametrize(("change", "rule"), BROKEN.values(), ids=BROKEN)
def test_columns_keep_the_rules_of_jobs(change: Change, rule: str) -> None:
    columns = change(small())
    Trace.of_columns("fine", small(), {})
    with pytest.raises(TraceError, match=rule) as whole:
        Trace.of_columns("broken", columns, {})
    jobs = StoredJobs(columns)
    with pytest.raises(TraceError) as alone:
        list(jobs)
    assert str(whole.value) == str(alone.value)


def test_job_names_are_distinct() -> None:
    twice = joined([small(), small()])
    with pytest.raises(TraceError, match="job name 'fork' is used twice"):
        Trace.of_columns("twice", twice, {})
    with pytest.raises(TraceError, match="job name 'fork' is used twice"):
        Trace("twice", tuple(StoredJobs(twice)))


def test_sums_are_those_of_the_objects() -> None:
    """To the last bit: gaps between arrivals are made of them."""
    for trace in (TPCH, HEAVY):
        columns = columns_of(tuple(trace.jobs))
        assert columns.work_ms().tolist() == [job.work_ms for job in trace.jobs]
        means = [stage.mean_ms for job in trace.jobs for stage in job.stages]
        assert columns.mean_ms().tolist() == means
        assert columns.tasks_of_jobs().tolist() == [job.num_tasks for job in trace.jobs]
        paths_ms = critical_paths_ms(columns, children_of(columns), np.array(means))
        paths = [longest_paths(job.children, [s.mean_ms for s in job.stages]) for job in trace.jobs]
        assert paths_ms.tolist() == [length for path in paths for length in path]


def test_a_path_may_be_longer_than_python_may_recurse() -> None:
    deep = [[row + 1] for row in range(4_999)] + [[]]
    assert longest_paths(deep, [1.0] * 5_000)[0] == 5_000


def test_numbers_of_any_size_are_added_as_by_the_objects() -> None:
    """Lists on both sides of where numpy begins to add in pairs."""
    rng = np.random.default_rng(2)
    for count in (1, 7, 8, 9, 127, 129, 1_000, 20_000):
        values = (10.0 ** rng.uniform(-3, 6, count)).tolist()
        level = LevelDurations.of(1, rest_ms=values)
        job = Job("j", (Stage("a", 3, (), (level,)), Stage("b", 2, (0,), (level,))))
        columns = columns_of([job])
        assert columns.mean_ms().tolist() == [stage.mean_ms for stage in job.stages], count
        assert columns.work_ms().tolist() == [job.work_ms]


def test_a_part_holds_its_own_jobs() -> None:
    columns = TPCH.columns
    cuts = [0, 3, 4, 50, columns.num_jobs]
    parts = [part_of(columns, *rows) for rows in itertools.pairwise(cuts)]
    assert [part.num_jobs for part in parts] == np.diff(cuts).tolist()
    assert parts[1].job(0).num_tasks == TPCH.jobs[3].num_tasks
    for own, other in zip(flat(columns), flat(joined(parts)), strict=True):
        np.testing.assert_array_equal(own, other)
