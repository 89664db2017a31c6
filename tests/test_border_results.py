"""Decision logs, results and runs at the border, and damage of any kind: one line each."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from decima.evaluation.config import EvaluationConfig
from decima.evaluation.runner import evaluate
from decima.report import comparison_sections, results_of
from decima.report.training import training_section
from decima.rl.errors import RunError, StudyError
from decima.spark import decision_log
from decima.spark.decision_log import read_decision_log
from decima.spark.loading import trained_slots
from decima.spark.review import review as reviewed
from decima.spark.settings import AttachError
from deeprm.study import Models
from tests.commands import decima, refused, succeeded
from tests.junk import damaged, read_or_refused
from traces import Job, Stage, Trace, TraceError, load_trace
from traces.dataset import write_dataset
from traces.files.errors import FileError

# --- decision logs -------------------------------------------------------------------------------

HEAD = {
    "format": "decima-decisions",
    "version": 3,
    "run": "ab",
    "mode": "exact",
    "policy": "es_rule",
    "parameters": {},
    "ran": "es_rule",
}


PLAN = {
    "plan": 1,
    "time_ms": 1000,
    "applied_ms": [1000, 1003],
    "slots": 4,
    "by": "es_rule",
    "fault": None,
    "sets": [[0, 0, "k1", 4, 1, 2, False]],
    "chosen": [0],
    "limits": {"k1": 3},
    "in_force": True,
}


JOB: dict[str, Any] = {
    "job": "k1",
    "name": "n1",
    "arrival_ms": 1000,
    "completion_ms": 6000,
    "own_ms": 100,
    "stages": [
        {"num_tasks": 4, "parents": [], "mean_ms": 1000.0},
        {"num_tasks": 2, "parents": [0], "mean_ms": None},
    ],
}


def decision_log_at(folder: Path, *rows: Any) -> Path:
    path = folder / "log.jsonl"
    lines = [json.dumps(row) for row in rows or (HEAD, PLAN, JOB)]
    path.write_text("\n".join(lines) + "\n")
    return path


def review(path: Path) -> Any:
    return decima("spark", "review", path)


def test_a_decision_log_is_read_within_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bound is on all its files together; one long line is one more."""
    path = decision_log_at(tmp_path)
    size = path.stat().st_size
    (tmp_path / "log.jsonl.1").write_bytes(path.read_bytes())
    monkeypatch.setattr(decision_log, "MAX_BYTES", 2 * size)
    assert len(read_decision_log(path).plans) == 2
    monkeypatch.setattr(decision_log, "MAX_BYTES", 2 * size - 1)
    refused(review(path), f"more than {size - 1:,} bytes of content are not read")
    path.write_bytes(b"1" * 2**25)
    refused(review(path), "log.jsonl:1: a line of more than 16,777,216 bytes is not read")


@pytest.mark.parametrize(
    ("kind", "change", "words"),
    [
        ("job", {"completion_ms": 999}, "completion_ms 999 lies before arrival_ms 1000"),
        ("job", {"completion_ms": -6000}, "completion_ms is -6000: a whole number from 0"),
        ("job", {"own_ms": 5001}, "own_ms 5001 is more than the 5000 ms that it took"),
        ("job", {"own_ms": 2**64}, "own_ms is 18446744073709551616: a whole number"),
        ("job", {"arrival_ms": 2**53 + 1}, "arrival_ms is 9007199254740993: a whole number"),
        ("job", {"arrival_ms": True}, "arrival_ms is True: a whole number"),
        ("job", {"job": 7}, "job is 7: text is needed"),
        ("stage", {"mean_ms": 1e18}, "mean_ms is 1e+18: a time from 0 to 9,007,199,254,740,992"),
        ("stage", {"num_tasks": 2**63}, "num_tasks is 9223372036854775808: a whole number"),
        ("stage", {"num_tasks": 0}, "0 tasks, a stage has between 1 and"),
        ("stage", {"parents": [0]}, "is its own parent"),
        ("stage", {"parents": 2}, "damaged: TypeError"),
        ("plan", {"time_ms": 2**64}, "time_ms is 18446744073709551616: a whole number"),
        ("plan", {"slots": -1}, "slots is -1"),
        ("plan", {"sets": [[0, 0, {"k1": 1}, 4, 1, 2, False]]}, "sets is {'k1': 1}: text"),
        ("plan", {"sets": [[0, 0, "k1", 4, 1, 2**70, False]]}, "sets is 1180591620717411303424"),
        ("plan", {"limits": {"k1": -3}}, "limits is -3"),
        ("plan", {"applied_ms": 5}, "damaged: TypeError"),
    ],
)
def test_a_logged_row_is_one_that_can_be(
    kind: str, change: dict[str, Any], words: str, tmp_path: Path
) -> None:
    plan, job = PLAN, JOB
    if kind == "plan":
        plan = PLAN | change
    elif kind == "job":
        job = JOB | change
    else:
        job = JOB | {"stages": [JOB["stages"][0] | change]}
    path = decision_log_at(tmp_path, HEAD, plan, job)
    refused(review(path), f"{path}: line {2 if kind == 'plan' else 3}: ", words)


def test_a_decision_log_with_names_that_no_file_holds(tmp_path: Path) -> None:
    """Lone surrogates and escape sequences are shown as escapes, in the picture as well."""
    odd = "\ud800\x1b[31m"
    rows = (HEAD, PLAN | {"sets": [[0, 0, odd, 4, 1, 2, False]]}, JOB | {"job": odd, "name": odd})
    path = decision_log_at(tmp_path, *rows)
    picture = tmp_path / "slots.svg"
    succeeded(decima("spark", "review", path, "--draw", picture))
    assert "ud800" in picture.read_text()
    with pytest.raises(AttachError, match="not a decision log"):
        read_decision_log(decision_log_at(tmp_path, "x"))


# --- result files ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    """An evaluation of two sequences under two policies, as JSON."""
    config = EvaluationConfig(
        trace="short-dag", policies=("fifo", "strict_fair"), executors=4, jobs=3, sequences=2
    )
    content: dict[str, Any] = json.loads(json.dumps(evaluate(config).to_json()))
    return content


def with_value(content: Any, value: Any, *path: Any) -> Any:
    copy = json.loads(json.dumps(content))
    place = copy
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return copy


FIFO = ("policies", "fifo")


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ((*FIFO, "jct_s", 0), [], "completion times of [0, 3] of [3, 3] jobs"),
        ((*FIFO, "jct_s", 0), [1.0], "of 4 of 6 jobs, where 0 have not arrived"),
        ((*FIFO, "jct_s", 0, 1), -1.0, "jct_s.0.1: Input should be greater than or equal to 0"),
        ((*FIFO, "median_jct_s", "per_sequence", 0), 1e300, "median_jct_s.per_sequence.0"),
        ((*FIFO, "avg_jct_s", "per_sequence", 0), 0, "avg_jct_s.per_sequence.0"),
        ((*FIFO, "fairness", "per_sequence", 0), 1.01, "fairness.per_sequence.0"),
        ((*FIFO, "idle_executor_s"), -6.0, "idle_executor_s"),
        ((*FIFO, "unfinished"), -1, "unfinished"),
        (("sequences", 0, "arrival_s", 0), -1.0, "sequences.0.arrival_s.0"),
        (("sequences", 0, "arrival_s", 0), 1e13, "sequences.0.arrival_s.0"),
        (("config", "executors"), 10**9, "config.executors"),
        (
            (*FIFO, "objective"),
            {"per_sequence": [0, 0]},
            "fifo: beside avg_jct_s the objective avg_jct has 0 values",
        ),
        ((*FIFO, "fairness"), 3, "fairness: Input should be a valid dictionary\n"),
    ],
)
def test_a_result_file_holds_what_can_be(
    results: dict[str, Any], path: tuple[Any, ...], value: Any, words: str, tmp_path: Path
) -> None:
    file = tmp_path / "r.json"
    file.write_text(json.dumps(with_value(results, value, *path)))
    page = tmp_path / "p.html"
    refused(decima("report", file, "-o", page), words)
    assert not page.exists()


def test_a_result_file_with_names_that_no_page_holds(
    results: dict[str, Any], tmp_path: Path
) -> None:
    odd = with_value(results, "odd \ud800", "sequences", 0, "name", 0)
    odd = with_value(odd, "odder \ud800", "config", "trace")
    (tmp_path / "r.json").write_text(json.dumps(odd))
    page = tmp_path / "p.html"
    succeeded(decima("report", tmp_path / "r.json", "-o", page))
    assert "odder \\ud800" in page.read_text()


def test_a_dataset_names_files_that_can_be(tmp_path: Path) -> None:
    write_dataset(Trace("t", (Job("j", (Stage.fixed("a", 2, 5.0),)),)), tmp_path / "set")
    manifest = tmp_path / "set" / "trace.json"
    content = json.loads(manifest.read_text())
    for name in ("\ud800", "\x1b[31m", "a" * 10_000, "..", ""):
        content["parts"].append({"file": name, "jobs": 1})
        manifest.write_text(json.dumps(content))
        info = decima("traces", "info", tmp_path / "set")
        refused(info, "trace.json: ", "is no part of it")
        del content["parts"][-1]


# --- what other readers do with damage ------------------------------------------------------------


@pytest.mark.parametrize("settings", [1.5, "x", True, {"executors": 3}, [3], [{"executors": [3]}]])
def test_a_card_tells_sizes_only_where_it_has_some(settings: Any) -> None:
    """A model's header is JSON that anybody may have written."""
    assert trained_slots({"config": {"workload": {"settings": settings}}}) is None


def test_a_run_with_names_that_no_page_holds(tmp_path: Path) -> None:
    """Lone surrogates in the settings and in the names of figures."""
    (tmp_path / "config.json").write_text('{"iterations": "\\ud800"}')
    row = {"iteration": 0, "validation/score": -3.0, "validation/above_\ud800": 5.0}
    (tmp_path / "metrics.jsonl").write_text(json.dumps(row) + "\n")
    page = tmp_path / "p.html"
    succeeded(decima("report", tmp_path, "-o", page))
    assert "\\ud800" in page.read_text("utf-8")


@pytest.mark.parametrize(
    "content", [{"a": 3}, {"a": [3]}, {"a": [{"iteration": "3"}]}, {"a": [{"x": 3}]}, []]
)
def test_deeprm_s_curves_are_rows_of_numbers(content: Any, tmp_path: Path) -> None:
    (tmp_path / "curves.json").write_text(json.dumps(content))
    with pytest.raises(StudyError, match=r"curves\.json: "):
        Models(tmp_path).curves()


def cut_or_altered(content: str, rng: random.Random) -> bytes:
    altered = bytearray(content.encode())
    if rng.random() < 0.5:
        return bytes(altered[: rng.randrange(len(altered))])
    for _ in range(3):
        altered[rng.randrange(len(altered))] = rng.randrange(256)
    return bytes(altered)


@pytest.mark.parametrize("seed", range(30))
def test_damage_of_any_kind_never_gives_a_traceback(
    seed: int, results: dict[str, Any], tmp_path: Path
) -> None:
    """Values of wrong types, huge numbers, empty lists, truncations: decision logs, results, runs,
    traces, datasets.
    """
    rng = random.Random(seed)  # noqa: S311 -- no secret
    log = [HEAD, PLAN, JOB]
    log[rng.randrange(3)] = damaged(rng.choice(log), rng.randrange)
    path = decision_log_at(tmp_path, *log)
    if seed % 3 == 0:
        path.write_bytes(cut_or_altered(path.read_text(), rng))
    with read_or_refused(AttachError, FileError, TraceError):
        reviewed(read_decision_log(path), ("fifo",))
    with read_or_refused(FileError):
        comparison_sections([results_of(damaged(results, rng.randrange), "here")])

    config = damaged({"iterations": 3, "seed": 1}, rng.randrange)
    (tmp_path / "config.json").write_text(json.dumps(config))
    rows = [{"iteration": n, "validation/score": -3.0, "loss": 1.0 + n} for n in range(3)]
    rows = [rows[0], damaged(rows[1], rng.randrange), rows[2]]
    (tmp_path / "metrics.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with read_or_refused(FileError, RunError):
        training_section(tmp_path)

    stage = {"name": "s", "num_tasks": 3, "task_ms": [500, 2]}
    trace = {"name": "t", "jobs": [{"name": "a", "arrival_ms": 0, "stages": [stage]}]}
    file, folder = tmp_path / "t.json", tmp_path / "set"
    file.write_text(json.dumps(damaged(trace, rng.randrange)))
    write_dataset(Trace("t", (Job("j", (Stage.fixed("a", 2, 5.0),)),)), folder)
    manifest = folder / "trace.json"
    content = damaged(json.loads(manifest.read_text()), rng.randrange)
    manifest.write_text(json.dumps(content))
    for place in (file, folder):
        with read_or_refused(FileError, TraceError):
            load_trace(place)
