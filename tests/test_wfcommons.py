"""Importing WfCommons instances: one workflow, one job."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.commands import raises_one_line
from tests.junk import damaged, read_or_refused
from traces import TraceError, read_wfcommons


def instance(
    edges: list[tuple[str, str]], runtimes: dict[str, Any], version: str = "1.5", **run: Any
) -> dict[str, Any]:
    """A workflow whose task ids are the keys of `runtimes`, in seconds."""
    return {
        "name": "workflow",
        "schemaVersion": version,
        "workflow": {
            "specification": {
                "tasks": [
                    {
                        "name": task,
                        "id": task,
                        "parents": [above for above, below in edges if below == task],
                        "children": [below for above, below in edges if above == task],
                    }
                    for task in runtimes
                ]
            },
            "execution": {
                "makespanInSeconds": 1,
                "executedAt": "2024-01-01",
                "tasks": [
                    {"id": task, "runtimeInSeconds": seconds} | run
                    for task, seconds in runtimes.items()
                ],
            },
        },
    }


def write(tmp_path: Path, content: Any, name: str = "flow.json") -> Path:
    path = tmp_path / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


FORK_JOIN = instance(
    [("split", f"work_{i}") for i in range(3)] + [(f"work_{i}", "join") for i in range(3)],
    {"split": 1, "work_0": 2, "work_1": 4, "work_2": 6, "join": 0.5},
)


def test_each_task_is_a_stage_of_one_task(tmp_path: Path) -> None:
    """Ids become names, seconds milliseconds, and one runtime stands for all waves."""
    content = instance([("a", "b")], {"a": 1.5, "b": 2}, coreCount=2, memoryInBytes=3 * 2**20)
    trace = read_wfcommons([write(tmp_path, content)])
    a, b = trace.job("flow").stages
    assert (a.name, a.num_tasks, a.parents, b.parents) == ("a", 1, (), (0,))
    assert [values.tolist() for values in a.durations[0].waves] == [[1500.0]] * 3
    assert (a.cpu, a.memory_mb) == (2.0, 3.0)


def test_grouping_merges_what_the_graph_cannot_tell_apart(tmp_path: Path) -> None:
    """Three workers with equal parents and children become one stage with three durations."""
    path = write(tmp_path, FORK_JOIN)
    assert len(read_wfcommons([path]).jobs[0].stages) == 5
    split, work, join = read_wfcommons([path], group=True).jobs[0].stages
    assert (work.num_tasks, work.parents, join.parents) == (3, (0,), (1,))
    assert work.durations[0].rest_ms.tolist() == [2000.0, 4000.0, 6000.0]
    assert split.num_tasks == join.num_tasks == 1


def test_grouping_keeps_different_programs_and_neighbours_apart(tmp_path: Path) -> None:
    """A same-named task with another child, and another program beside it, stay on their own."""
    content = instance(
        [("a_1", "end"), ("a_2", "end"), ("a_3", "other"), ("b_1", "end")],
        dict.fromkeys(("a_1", "a_2", "a_3", "b_1", "end", "other"), 1),
    )
    stages = read_wfcommons([write(tmp_path, content)], group=True).jobs[0].stages
    assert [(stage.name, stage.num_tasks) for stage in stages] == [
        ("a_1", 2),
        ("a_3", 1),
        ("b_1", 1),
        ("end", 1),
        ("other", 1),
    ]
    assert stages[3].parents == (0, 2)


def test_an_edge_named_by_either_end_counts(tmp_path: Path) -> None:
    """Files in which only one side lists the edge are read alike."""
    content = instance([("a", "b")], {"a": 1, "b": 1})
    content["workflow"]["specification"]["tasks"][1]["parents"] = []
    assert read_wfcommons([write(tmp_path, content)]).jobs[0].stages[1].parents == (0,)


def test_several_files_are_several_jobs(tmp_path: Path) -> None:
    """Jobs are named after the files; two files of one name are refused."""
    first = write(tmp_path, FORK_JOIN, "one.json")
    two = write(tmp_path, instance([], {"x": 1}, "1.6"), "two.json")
    assert [job.name for job in read_wfcommons([str(first), str(two)]).jobs] == ["one", "two"]
    with pytest.raises(TraceError, match="'one' is used twice"):
        read_wfcommons([first, first])


def test_a_runtime_of_zero_is_taken_as_a_millisecond_and_counted(tmp_path: Path) -> None:
    """Clocks that tick in seconds write 0; no task takes no time."""
    trace = read_wfcommons([write(tmp_path, instance([], {"a": 0, "b": 1}))])
    assert trace.jobs[0].stages[0].mean_ms == 1.0
    assert list(trace.metadata["adjusted"].values()) == [1]


def broken(**change: Any) -> dict[str, Any]:
    """The specification of one task, changed."""
    content = instance([], {"a": 1})
    content["workflow"]["specification"]["tasks"][0] |= change
    return content


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        pytest.param("", ":1: not JSON", id="empty"),
        pytest.param("[1]", "'schemaVersion' is missing", id="a list"),
        pytest.param(instance([], {"a": 1}, "1.4"), "schemaVersion '1.4'", id="old version"),
        pytest.param(instance([], {}), "has no stage", id="no task"),
        pytest.param(instance([("a", "a")], {"a": 1}), "its own parent", id="self-parent"),
        pytest.param(instance([("a", "b"), ("b", "a")], {"a": 1, "b": 1}), "cycle", id="cycle"),
        pytest.param(broken(parents=["zz"]), "names 'zz'", id="unknown parent"),
        pytest.param(broken(parents=None), "'parents' is missing", id="no parents"),
        pytest.param(broken(id="b"), "was not executed", id="no runtime"),
        pytest.param(instance([], {"a": "x"}), "expected a number, found 'x'", id="text"),
        pytest.param(instance([], {"a": -1}), "runtimeInSeconds -1 must not", id="negative"),
        pytest.param(instance([], {"a": 1}, coreCount="2"), "coreCount: expected", id="cores"),
    ],
)
def test_defects_are_named(tmp_path: Path, content: Any, rule: str) -> None:
    path = write(tmp_path, content)
    with raises_one_line(TraceError, match=rule) as caught:
        read_wfcommons([path])
    assert str(caught.value).startswith(str(path))


@settings(max_examples=100)
@given(data=st.data())
def test_any_value_replaced_by_another_is_read_or_refused(
    tmp_path: Path, data: st.DataObject
) -> None:
    """Nulls, lists and numbers in wrong places never bring up another error."""
    content = damaged(FORK_JOIN, lambda count: data.draw(st.integers(0, count - 1)))
    with read_or_refused(TraceError):
        read_wfcommons([write(tmp_path, content)], group=data.draw(st.booleans()))


def dax(jobs: str, edges: str = "", version: str = "2.1") -> str:
    """An abstract workflow of Pegasus."""
    return (
        '<?xml version="1.0" encoding="UTF-8"?><!-- made --><adag '
        f'xmlns="http://pegasus.isi.edu/schema/DAX" version="{version}">{jobs}{edges}</adag>'
    )


ABC = (
    '<job id="ID1" namespace="M" name="project_1" runtime="13.5"><uses file="x" size="7"/></job>'
    '<job id="ID2" namespace="M" name="project_2" runtime="10.25"></job>'
    '<job id="ID3" name="add"><profile namespace="pegasus" key="cores">2</profile>'
    '<profile namespace="pegasus" key="runtime"> 2 </profile></job>'
)
JOIN = '<child ref="ID3"><parent ref="ID1"/><parent ref="ID2"/></child>'


def test_a_dax_is_read_like_an_instance(tmp_path: Path) -> None:
    """Runtimes from the attribute or the profile, edges from the children; grouped as well."""
    path = write(tmp_path, dax(ABC, JOIN), "montage.dax")
    (job,) = read_wfcommons([path]).jobs
    assert job.name == "montage"
    assert [stage.mean_ms for stage in job.stages] == [13_500.0, 10_250.0, 2_000.0]
    assert [stage.parents for stage in job.stages] == [(), (), (0, 1)]
    (grouped,) = read_wfcommons([path], group=True).jobs
    assert [stage.num_tasks for stage in grouped.stages] == [2, 1]
    wide = tmp_path / "wide.dax"
    wide.write_bytes(path.read_text().replace("UTF-8", "UTF-16").encode("utf-16"))
    assert read_wfcommons([wide]).jobs[0].stages[2].parents == (0, 1)


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        (dax('<job id="a" name="a"/>'), "'a' was not executed"),
        (dax(ABC, '<child ref="ID3"><parent ref="ID9"/></child>'), "'ID9', which is no task"),
        (dax(ABC + ABC), "'ID1' is used twice"),
        (dax(ABC, JOIN + '<child ref="ID1"><parent ref="ID3"/></child>'), "cycle"),
        (dax('<job name="a" runtime="1"/>'), "<job> lacks the attribute 'id'"),
        (dax('<job id="a" runtime="long"/>'), "'a': runtime 'long' is not a number"),
        (dax('<job id="a" runtime="-1"/>'), "must not be negative"),
        (dax(ABC)[:-3], "not XML"),
        (dax(ABC).replace("UTF-8", "UTF-48"), "not XML: unknown encoding"),
        ("<html></html>", "the root is <html>"),
        ('<!DOCTYPE adag [<!ENTITY x "y">]>' + dax("").partition("?>")[2], "DOCTYPE"),
    ],
)
def test_defects_of_a_dax_are_named(tmp_path: Path, content: str, rule: str) -> None:
    path = write(tmp_path, content, "flow.dax")
    with pytest.raises(TraceError, match=rule) as caught:
        read_wfcommons([path])
    assert str(caught.value).startswith(f"{path}: ")


def test_a_dax_of_too_many_jobs_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("traces.wfcommons.MAX_TASKS", 2)
    with pytest.raises(TraceError, match="more than 2 jobs"):
        read_wfcommons([write(tmp_path, dax(ABC, JOIN), "flow.dax")])
