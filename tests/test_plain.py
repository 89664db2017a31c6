"""CSV and JSON written by hand: what each cell means, and a helpful line for each mistake."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.commands import raises_one_line
from traces import TraceError, read_csv, read_json

EXAMPLES = Path(__file__).parents[1] / "docs" / "examples"


def csv_file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "jobs.csv"
    path.write_text(text)
    return path


def json_file(tmp_path: Path, content: Any) -> Path:
    """A JSON file of `content`; text is written as it is."""
    path = tmp_path / "jobs.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_the_smallest_csv(tmp_path: Path) -> None:
    """Four columns are enough; a wave that was not measured stays empty."""
    path = csv_file(tmp_path, "job,stage,num_tasks,task_ms\na,scan,4,1000\n")
    trace = read_csv(path)
    assert read_csv(str(path)).to_arrow() == trace.to_arrow()
    stage = trace.job("a").stages[0]
    assert (trace.name, stage.name, stage.num_tasks, stage.parents) == ("jobs", "scan", 4, ())
    assert stage.durations[0].executors == 1
    assert [values.tolist() for values in stage.durations[0].waves] == [[], [], [1000.0]]
    assert (stage.cpu, stage.memory_mb, trace.jobs[0].arrival_ms) == (None, None, None)


def test_every_column_of_the_csv(tmp_path: Path) -> None:
    """Parents by name before they are defined, several samples, two levels, demands, arrival."""
    text = (
        "job,stage,parents,num_tasks,executors,task_ms,first_ms,fresh_ms,cpu,memory_mb,arrival_ms\n"
        "a,join,left;right,8,20,30;40,50,,2,512,250\n"
        "\n"
        "# the same stage with fewer executors\n"
        "a,join,,,5,10,,20,,,\n"
        "a,left,,1,,7,,,,,\n"
        "b,left,,1,,7,,,,,0\n"
        "a,right,left,1,,,,9,,,\n"
    )
    trace = read_csv(csv_file(tmp_path, text))
    join, left, right = trace.job("a").stages
    assert [level.executors for level in join.durations] == [5, 20]
    five, twenty = join.durations
    assert [values.tolist() for values in five.waves] == [[20.0], [], [10.0]]
    assert [values.tolist() for values in twenty.waves] == [[], [50.0], [30.0, 40.0]]
    assert (join.parents, left.parents, right.parents) == ((1, 2), (), (1,))
    assert (join.num_tasks, join.cpu, join.memory_mb) == (8, 2.0, 512.0)
    assert (trace.job("a").arrival_ms, trace.job("b").arrival_ms) == (250.0, 0.0)


HEADER = "job,stage,num_tasks,task_ms,parents,executors,arrival_ms\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("", ": empty, expected a header", id="empty file"),
        pytest.param("job,stage\n", ":1: column 'num_tasks' is missing", id="column missing"),
        pytest.param("job,stage,tasks\n", ":1: unknown column 'tasks'", id="unknown column"),
        pytest.param("job,job,stage\n", ":1: column 'job' appears twice", id="column twice"),
        pytest.param(HEADER, ": trace 'jobs' holds no job", id="no row"),
        pytest.param(HEADER + "a,s,1,5\n", ":2: 4 cells, the header has 7", id="short row"),
        pytest.param(HEADER + "a,s,x,5,,,\n", ":2: num_tasks 'x' is not a whole", id="text"),
        pytest.param(HEADER + "a,s,,5,,,\n", ":2: num_tasks of stage 's' is empty", id="no count"),
        pytest.param(HEADER + "a,s,0,5,,,\n", ":2: stage 's': 0 tasks", id="empty stage"),
        pytest.param(HEADER + "a,s,1,0,,,\n", ":2: level 1, rest wave: duration 0 ms", id="zero"),
        pytest.param(HEADER + "a,s,1,nan,,,\n", ":2: task_ms 'nan' must be finite", id="nan"),
        (HEADER + "a,s,1,5,t,,\na,t,1,5,s,,\n", ":2: job 'a': its stages form a cycle"),
        (HEADER + "a,s,1,5,,,\na,s,1,6,,,\n", ":3: stage 's' has executor level 1 twice"),
        (HEADER + "a,s,1,5,,,\na,s,2,6,,9,\n", ":3: stage 's': num_tasks 2 differs"),
        (HEADER + "a,s,1,5,,,\na,t,1,5,,,\na,s,,6,t,9,\n", ":4: stage 's': parents t differs"),
        (HEADER + "a,s,1,5,,,4\na,t,1,5,,,6\n", ":3: job 'a': arrival_ms is 6 here and 4 in"),
        pytest.param(HEADER + ",s,1,5,,,\n", ":2: job is empty", id="no job"),
        pytest.param(HEADER + 'a,"s,1,5,,,\n', ":2: not CSV", id="open quote"),
    ],
)
def test_mistakes_in_csv_name_file_and_line(tmp_path: Path, text: str, message: str) -> None:
    path = csv_file(tmp_path, text)
    with raises_one_line(TraceError) as caught:
        read_csv(path)
    assert str(caught.value).startswith(f"{path}{message}")


def test_csv_of_a_spreadsheet_is_read(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_bytes(b'\xef\xbb\xbfjob,stage,num_tasks,task_ms\r\n"a, b",s,1,5\r\n')
    assert read_csv(path).jobs[0].name == "a, b"
    path.write_bytes(b"job,stage,num_tasks,task_ms\n\xff,s,1,5\n")
    with pytest.raises(TraceError, match="not UTF-8"):
        read_csv(path)


def stage_record(**change: Any) -> dict[str, Any]:
    return {"name": "s", "num_tasks": 1, "task_ms": 5} | change


def one_job(*stages: Any, **change: Any) -> dict[str, Any]:
    return {"jobs": [{"name": "a", "stages": list(stages)} | change]}


def test_json_holds_the_same_as_csv(tmp_path: Path) -> None:
    """One number or a list, durations directly or by level, parents by name."""
    content = one_job(
        stage_record(name="join", parents=["scan"], num_tasks=8, task_ms=[30, 40], cpu=2),
        {
            "name": "scan",
            "num_tasks": 3,
            "memory_mb": 512,
            "levels": [
                {"executors": 20, "task_ms": 9, "fresh_ms": [11.5]},
                {"executors": 5, "first_ms": 7},
            ],
        },
        arrival_ms=250,
    )
    trace = read_json(str(json_file(tmp_path, content | {"name": "mine"})))
    join, scan = trace.job("a").stages
    assert (trace.name, trace.job("a").arrival_ms) == ("mine", 250.0)
    assert (join.parents, join.cpu, join.memory_mb) == ((1,), 2.0, None)
    assert join.durations[0].rest_ms.tolist() == [30.0, 40.0]
    assert [level.executors for level in scan.durations] == [5, 20]
    assert [values.tolist() for values in scan.durations[1].waves] == [[11.5], [], [9.0]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param("", ":1: not JSON", id="empty file"),
        pytest.param('{"jobs": [\n}', ":2: not JSON", id="syntax"),
        pytest.param([], ": expected an object", id="a list"),
        pytest.param({}, ": key 'jobs' is missing", id="no jobs"),
        pytest.param({"jobs": {}}, ": jobs: expected a list", id="jobs no list"),
        pytest.param({"jobs": []}, ": trace 'jobs' holds no job", id="jobs empty"),
        pytest.param(one_job(), ": jobs[0]: job 'a' has no stage", id="no stage"),
        (one_job(stage_record(tasks=3)), ": jobs[0].stages[0]: unknown key 'tasks'"),
        (one_job({"name": "s"}), ": jobs[0].stages[0]: key 'num_tasks' is missing"),
        (one_job(stage_record(num_tasks=True)), ": jobs[0].stages[0].num_tasks: expected a whole"),
        (one_job(stage_record(task_ms="5")), ": jobs[0].stages[0].task_ms: expected a number"),
        (one_job(stage_record(task_ms=10**400)), ": jobs[0].stages[0].task_ms: a number of 401"),
        (one_job(stage_record(task_ms=0)), ": jobs[0].stages[0]: level 1, rest wave: duration 0"),
        (one_job(stage_record(levels=[])), ": jobs[0].stages[0]: give durations either"),
        (one_job(stage_record(parents="t")), ": jobs[0].stages[0]: expected a list"),
        (one_job(stage_record(), stage_record()), ": jobs[0].stages[1]: stage name 's' is used"),
        ({"jobs": one_job(stage_record())["jobs"] * 2}, ": trace 'jobs': job name 'a' is used"),
        (one_job(stage_record(name="")), ": jobs[0].stages[0].name: expected a name"),
    ],
)
def test_mistakes_in_json_name_the_place(tmp_path: Path, content: Any, message: str) -> None:
    path = json_file(tmp_path, content)
    with raises_one_line(TraceError) as caught:
        read_json(path)
    assert str(caught.value).startswith(f"{path}{message}")


def test_the_examples_of_the_documentation_are_read() -> None:
    for trace in (read_csv(EXAMPLES / "jobs.csv"), read_json(EXAMPLES / "jobs.json")):
        assert [job.name for job in trace.jobs] == ["report", "lookup"]
        assert [stage.num_tasks for stage in trace.job("report").stages] == [40, 12, 200, 1]
        assert [stage.parents for stage in trace.job("report").stages] == [(), (), (0, 1), (2,)]
        assert [job.arrival_ms for job in trace.jobs] == [0.0, 30_000.0]
        assert [level.executors for level in trace.jobs[0].stages[0].durations] == [5, 20]


pieces = st.sampled_from(
    [*'ab19.,;-#"\n ', "job", "stage", "num_tasks", "task_ms", "nan", "{", "}", "[", "]", ":"]
)


@settings(max_examples=100)
@given(noise=st.lists(pieces, max_size=30).map("".join), place=st.integers(0, 400))
def test_noise_anywhere_is_read_or_refused_in_one_line(
    tmp_path: Path, noise: str, place: int
) -> None:
    """Text pushed into the middle of good files never brings up another error."""
    for name, read in (("jobs.csv", read_csv), ("jobs.json", read_json)):
        text = (EXAMPLES / name).read_text()
        path = tmp_path / name
        path.write_text(text[:place] + noise + text[place:])
        try:
            read(path)
        except TraceError as error:
            assert "\n" not in str(error)  # noqa: PT017 -- some noise is harmless
