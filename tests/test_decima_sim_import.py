"""Importing decima-sim's folder: the right numbers, and nothing in the pickles ever runs."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.commands import raises_one_line
from tests.junk import read_or_refused
from traces import TraceError, read_decima_sim
from traces.decima_sim import clean_first_wave
from traces.graph import summary

SHARED = Path(__file__).parents[1].parent / "shared" / "data" / "decima-sim-tpch"

Waves = dict[str, dict[int, list[Any]]]


def waves(first: dict[int, list[Any]], rest: dict[int, list[Any]], fresh: Any = None) -> Waves:
    return {
        "first_wave": first,
        "rest_wave": rest,
        "fresh_durations": {level: [] for level in first} if fresh is None else fresh,
    }


def write_query(folder: Path, query: int, adjacency: Any, durations: object) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / f"adj_mat_{query}.npy", np.array(adjacency, np.float64))
    holder = np.empty((), object)
    holder[()] = durations
    np.save(folder / f"task_duration_{query}.npy", holder, allow_pickle=True)


def write_pickle(path: Path, content: bytes) -> None:
    """An .npy file of one object with a pickle of our choice."""
    with path.open("wb") as stream:
        header = {"descr": "|O", "fortran_order": False, "shape": ()}
        np.lib.format.write_array_header_1_0(stream, header)
        stream.write(content)


def test_a_folder_written_by_numpy_is_read_back(tmp_path: Path) -> None:
    """Edges go from row to column; tasks are counted in the raw waves of the dict's first key."""
    table = {
        0: waves({20: [7, 8], 5: [4]}, {20: [5, 6, 5], 5: [3]}, {20: [8], 5: [4]}),
        1: waves({5: [2.5]}, {5: []}),
    }
    write_query(tmp_path / "set" / "2g", 3, [[0, 1], [0, 0]], table)
    trace = read_decima_sim(str(tmp_path / "set"))

    job = trace.job("2g/q3")
    assert trace.name == "set"
    assert [stage.parents for stage in job.stages] == [(), (0,)]
    assert [stage.num_tasks for stage in job.stages] == [5, 1]
    five, twenty = job.stages[0].durations
    assert (five.executors, twenty.executors) == (5, 20)
    assert [values.tolist() for values in twenty.waves] == [[8.0], [7.0], [5.0, 6.0, 5.0]]
    # Level 5 loses its only first-wave task to the fresh ones, and no smaller level can lend any.
    assert [values.tolist() for values in five.waves] == [[4.0], [], [3.0]]


def test_jobs_are_ordered_by_size_then_query_as_numbers(tmp_path: Path) -> None:
    """10g comes after 5g and q10 after q2, which names as text would not do."""
    table = {0: waves({5: [1]}, {5: [1]})}
    for size, query in (("10g", 1), ("5g", 10), ("5g", 2), ("100g", 1)):
        write_query(tmp_path / size, query, [[0]], table)
    names = [job.name for job in read_decima_sim(tmp_path).jobs]
    assert names == ["5g/q2", "5g/q10", "10g/q1", "100g/q1"]


def test_fresh_tasks_are_removed_and_an_empty_level_takes_the_next_smaller_one() -> None:
    """One by one; over several levels; below the smallest there is nothing to take."""
    assert clean_first_wave({5: [1, 1, 2, 3]}, {5: [1, 3]}) == {5: [1, 2]}
    first: dict[int, list[float]] = {40: [9], 10: [5, 6], 20: [7], 2: [1]}
    fresh: dict[int, list[float]] = {40: [9], 10: [6], 20: [7], 2: [1]}
    assert clean_first_wave(first, fresh) == {2: [], 10: [5], 20: [5], 40: [5]}


def test_a_level_without_any_duration_is_dropped_and_counted(tmp_path: Path) -> None:
    write_query(tmp_path / "2g", 1, [[0]], {0: waves({5: [1], 10: []}, {5: [1], 10: []})})
    trace = read_decima_sim(tmp_path)
    assert [level.executors for level in trace.jobs[0].stages[0].durations] == [5, 10]
    write_query(tmp_path / "2g", 1, [[0]], {0: waves({10: [1], 5: []}, {10: [1], 5: []})})
    trace = read_decima_sim(tmp_path)
    assert [level.executors for level in trace.jobs[0].stages[0].durations] == [10]
    assert trace.metadata["skipped"] == {"executor levels without a duration": 1}


class Evil:
    """Pickles as a call that creates a file."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return (Path.touch, (self.target,))


@pytest.mark.parametrize("protocol", range(6))
def test_a_malicious_pickle_is_refused_and_does_nothing(tmp_path: Path, protocol: int) -> None:
    """Under every pickle protocol, a call smuggled into the durations never happens."""
    write_query(tmp_path / "2g", 1, [[0]], {})
    target = tmp_path / "owned"
    content = pickle.dumps({0: Evil(target)}, protocol)
    write_pickle(tmp_path / "2g" / "task_duration_1.npy", content)
    with pytest.raises(TraceError, match="not allowed"):
        read_decima_sim(tmp_path)
    assert not target.exists()
    pickle.loads(content)  # noqa: S301 -- shows that the attack is a real one
    assert target.exists()


def global_call(module: str, name: str, argument: str) -> bytes:
    """The pickle of ``module.name(argument)``, by hand in protocol 2."""
    return (
        b"\x80\x02c" + f"{module}\n{name}\n".encode() + b"U" + bytes([len(argument)])
        + argument.encode() + b"\x85R."
    )  # fmt: skip


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        pytest.param(global_call("builtins", "eval", "1"), "not allowed", id="eval"),
        pytest.param(global_call("os", "system", "true"), "not allowed", id="system"),
        pytest.param(global_call("numpy", "load", "x"), "not allowed", id="other numpy names"),
        (global_call("numpy.core.multiarray", "scalar", "x"), "not allowed"),
        pytest.param(b"\x80\x02(cos\nsystem\nU\x04trueo.", "not allowed", id="OBJ opcode"),
        pytest.param(b"\x80\x02(U\x04trueios\nsystem\n.", "not allowed", id="INST opcode"),
        pytest.param(b"\x80\x02\x82\x01.", "not allowed", id="extension registry"),
        pytest.param(b"\x80\x02U\x01xQ.", "not allowed", id="persistent id"),
        pytest.param(b"\x80\x02}r\xff\xff\xff\x7f.", "memo index", id="memo of gigabytes"),
        pytest.param(b"\x80\x02)" + b"\x85" * 10**6 + b".", "tuples", id="a million nested tuples"),
        pytest.param(b"\x80\x02]" + b"q\x00h\x00a" * 10 + b".", "npy", id="list inside itself"),
        pytest.param(b"", "npy", id="nothing"),
        pytest.param(b"\x80\x02.", "npy", id="empty stack"),
        pytest.param(b"\x80\x02}K\x01b.", "npy", id="state for a dict"),
        (b"\x80\x02cnumpy\ndtype\nN}U\x01xK\x01s\x86b.", "npy"),
        pytest.param(b"\x80\x02cnumpy\nndarray\n)R.", "npy", id="call of nothing"),
    ],
)
def test_hostile_pickles_cost_one_line(tmp_path: Path, content: bytes, rule: str) -> None:
    write_query(tmp_path / "2g", 1, [[0]], {})
    write_pickle(tmp_path / "2g" / "task_duration_1.npy", content)
    with raises_one_line(TraceError, match=rule) as caught:
        read_decima_sim(tmp_path)
    assert "task_duration_1.npy" in str(caught.value)


ONE = waves({5: [1]}, {5: [1]})


@pytest.mark.parametrize(
    ("durations", "rule"),
    [
        pytest.param([1, 2], "one dict of stages", id="no dict"),
        pytest.param({"a": ONE}, "expected an integer", id="stage is text"),
        pytest.param({0: [1]}, "with a dict of waves", id="waves are a list"),
        pytest.param({0: {"first_wave": {5: [1]}}}, "rest_wave", id="wave missing"),
        pytest.param({0: waves({5: ["x"]}, {5: []})}, "must be numbers", id="text"),
        pytest.param({0: waves({5: [True]}, {5: []})}, "must be numbers", id="truth value"),
        pytest.param({0: waves({5: [-3]}, {5: []})}, "-3 ms must be positive", id="negative"),
        pytest.param({0: waves({5: [0]}, {5: []})}, "0 ms must be positive", id="zero"),
        pytest.param({0: waves({0: [1]}, {0: []})}, "executor level 0", id="level 0"),
        pytest.param({0: waves({}, {})}, "no executor level", id="no level"),
        pytest.param({0: waves({5: []}, {5: []})}, "0 tasks", id="empty stage"),
        pytest.param({0: ONE, 1: ONE}, r"the matrix has stages 0\.\.0", id="stage too many"),
    ],
)
def test_wrong_durations_are_named(tmp_path: Path, durations: object, rule: str) -> None:
    write_query(tmp_path / "2g", 1, [[0]], durations)
    with pytest.raises(TraceError, match=rule) as caught:
        read_decima_sim(tmp_path)
    assert "task_duration_1.npy: " in str(caught.value)


@pytest.mark.parametrize(
    ("adjacency", "rule"),
    [
        pytest.param([[1]], "its own parent", id="self-parent"),
        pytest.param([[0, 1], [1, 0]], "cycle", id="cycle"),
        pytest.param([[0, 1]], "is square", id="not square"),
        pytest.param(3.0, "is square", id="a number"),
    ],
)
def test_wrong_matrices_are_named(tmp_path: Path, adjacency: Any, rule: str) -> None:
    stages = np.atleast_2d(adjacency).shape[1]
    write_query(tmp_path / "2g", 1, adjacency, dict.fromkeys(range(stages), ONE))
    with pytest.raises(TraceError, match=rule):
        read_decima_sim(tmp_path)


def test_missing_files_and_folders_are_named(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="not a folder"):
        read_decima_sim(tmp_path / "none")
    write_query(tmp_path / "2g", 1, [[0]], {0: ONE})
    (tmp_path / "2g" / "task_duration_1.npy").unlink()
    with pytest.raises(TraceError, match=r"task_duration_1\.npy: cannot read: No such file"):
        read_decima_sim(tmp_path)


def test_a_header_that_claims_more_than_the_file_holds_is_refused(tmp_path: Path) -> None:
    write_query(tmp_path / "2g", 1, [[0]], {0: ONE})
    with (tmp_path / "2g" / "adj_mat_1.npy").open("wb") as stream:
        header = {"descr": "<f8", "fortran_order": False, "shape": (2_000, 2_000)}
        np.lib.format.write_array_header_1_0(stream, header)
    with pytest.raises(TraceError, match="do not fill shape"):
        read_decima_sim(tmp_path)


@settings(max_examples=60)
@pytest.mark.filterwarnings("ignore:Reading `.npy`:UserWarning")
@pytest.mark.parametrize("name", ["adj_mat_1.npy", "task_duration_1.npy"])
@given(position=st.integers(0, 10**6), value=st.integers(0, 255), cut=st.booleans())
@example(position=8, value=1, cut=False)
def test_damage_never_escapes_as_another_error(
    position: int, value: int, cut: bool, tmp_path: Path, name: str
) -> None:
    """Any byte changed, or the file cut anywhere: it is refused, or still a legal trace."""
    write_query(tmp_path / "2g", 1, [[0, 1], [0, 0]], {0: ONE, 1: ONE})
    path = tmp_path / "2g" / name
    content = bytearray(path.read_bytes())
    position %= len(content)
    if cut:
        del content[position:]
    else:
        content[position] = value
    path.write_bytes(bytes(content))
    with read_or_refused(TraceError):
        read_decima_sim(tmp_path)


@pytest.fixture(scope="module")
def shared() -> Path:
    if not SHARED.is_dir():
        pytest.skip("the public TPC-H traces are not beside this checkout")
    return SHARED


def test_the_public_traces_have_their_published_figures(shared: Path) -> None:
    """154 jobs, 2 to 18 stages (mean 9.18), 13 to 3,717 tasks (median 1,018), 8.5 edges."""
    trace = read_decima_sim(shared)
    figures = summary(trace)
    assert figures["jobs"] == 154
    assert (figures["stages_per_job"]["min"], figures["stages_per_job"]["max"]) == (2, 18)
    assert round(figures["stages_per_job"]["mean"], 2) == 9.18
    assert figures["tasks_per_job"] | {"mean": None} == {
        "min": 13, "median": 1018, "max": 3717, "mean": None
    }  # fmt: skip
    assert figures["edges"] / 154 == pytest.approx(8.5, abs=0.05)
    sizes = list(dict.fromkeys(job.name.split("/")[0] for job in trace.jobs))
    assert sizes == ["2g", "5g", "10g", "20g", "50g", "80g", "100g"]
    assert [job.name for job in trace.jobs[:2]] == ["2g/q1", "2g/q2"]
