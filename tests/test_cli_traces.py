"""`decima traces`: what a person types, what they get, and one line for every mistake."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from decima.cli.errors import OneLineErrors
from decima.cli.traces import traces
from tests.commands import refused, succeeded
from tests.test_decima_sim_import import waves, write_query
from traces import Job, Stage, Trace, TraceError, load_trace, read_trace, write_trace

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "docs" / "examples"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(traces, [str(argument) for argument in arguments])


def test_list_names_the_builtin_traces() -> None:
    shown = {line.split()[0] for line in run("list").stdout.splitlines()}
    assert {"tpch-like", "random-dag"} <= shown


def test_info_as_json_gives_the_figures() -> None:
    content = json.loads(run("info", EXAMPLES / "jobs.json", "--json").stdout)
    assert (content["name"], content["jobs"], content["stages"]) == ("example", 2, 6)
    assert (content["tasks"], content["edges"], content["depth_max"]) == (258, 4, 3)
    assert content["stages_per_job"] == {"min": 2, "median": 3.0, "mean": 3.0, "max": 4}
    assert content["tasks_per_job"]["max"] == 253
    assert content["metadata"] == {"format": "json", "source": "jobs.json"}
    lookup_s = (4 * 400 + 50) / 1_000
    orders_s = 40 * (1200 + 1250 + 1400 + 1500 + 3100) / 5 / 1_000
    items_s = 12 * (900 + 950 + 1100 + 2700) / 4 / 1_000
    join_s, total_s = 200 * (110 + 120 + 150) / 3 / 1_000, 0.3
    work_s = lookup_s + orders_s + items_s + join_s + total_s
    assert content["work_executor_s"] == pytest.approx(work_s)


def test_show_prints_the_stages_of_a_job() -> None:
    result = run("show", EXAMPLES / "jobs.json", "report")
    rows = [line.split() for line in result.stdout.splitlines()]
    assert result.exit_code == 0
    assert "report: 253 tasks, depth 3" in result.stdout
    assert ["join", "200", "0.127", "25.3", "0.4", "orders,", "items"] in rows


def test_show_without_a_job_lists_the_jobs(tmp_path: Path) -> None:
    """Every name is one that the command takes; there is nothing to draw of all of them."""
    result = succeeded(run("show", EXAMPLES / "jobs.json"))
    heading, *rows = [line.split() for line in result.stdout.splitlines()]
    assert heading == ["job", "stages", "tasks", "work", "executor-s"]
    assert [row[:3] for row in rows] == [["report", "4", "253"], ["lookup", "2", "5"]]
    assert run("show", EXAMPLES / "jobs.json", rows[0][0]).exit_code == 0
    every = run("show", "tpch").stdout
    assert [job.name for job in load_trace("tpch").jobs if f" {job.name} " not in every] == []
    refused(run("show", "tpch", "-o", tmp_path / "a.svg"), "--output", "name it")


def test_show_draws_a_file(tmp_path: Path) -> None:
    for name in ("job.svg", "job.png"):
        succeeded(run("show", "random-dag", "job3", "-o", tmp_path / name))
        assert (tmp_path / name).stat().st_size > 1_000


def test_names_from_files_are_not_taken_for_markup(tmp_path: Path) -> None:
    jobs = (Job("[bold]j", (Stage.fixed("[red]s", 1, 1.0),)),)
    write_trace(Trace("[t]", jobs, {"note": "[/]"}), tmp_path / "t.parquet")
    assert "[red]s" in run("show", tmp_path / "t.parquet", "[bold]j").stdout
    assert "[/]" in run("info", tmp_path / "t.parquet").stdout


def alibaba_rows() -> str:
    """One good job and one that failed."""
    return "M1,3,good,1,Terminated,10,20,100,0.5\nM1,1,bad,1,Failed,10,20,100,0.5\n"


def workflow() -> str:
    """A WfCommons instance of two equal tasks."""
    tasks = [{"name": f"t_{i}", "id": f"t_{i}", "parents": [], "children": []} for i in range(2)]
    runs = [{"id": f"t_{i}", "runtimeInSeconds": 1} for i in range(2)]
    parts = {"specification": {"tasks": tasks}, "execution": {"tasks": runs}}
    return json.dumps({"name": "w", "schemaVersion": "1.5", "workflow": parts})


def test_every_format_is_imported_to_a_trace_file(tmp_path: Path) -> None:
    """Each importer writes a file that loads, and its summary says what was left out."""
    (tmp_path / "batch_task.csv").write_text(alibaba_rows())
    (tmp_path / "flow.json").write_text(workflow())
    output = tmp_path / "out.parquet"

    def imported(*arguments: object) -> tuple[list[str], str]:
        result = succeeded(run("import", *arguments, "-o", output))
        assert f"wrote {output}" in result.stdout
        return [job.name for job in read_trace(output).jobs], result.stdout

    write_query(tmp_path / "tpch" / "2g", 1, [[0]], {0: waves({5: [1]}, {5: []})})
    jobs, _ = imported("decima-sim", tmp_path / "tpch")
    assert jobs == ["2g/q1"]
    jobs, shown = imported("alibaba", tmp_path / "batch_task.csv", "--limit", 5)
    assert jobs == ["good"]
    assert "not_terminated: 1" in shown
    assert imported("csv", EXAMPLES / "jobs.csv")[0] == ["report", "lookup"]
    assert imported("json", EXAMPLES / "jobs.json")[0] == ["report", "lookup"]
    assert imported("wfcommons", tmp_path / "flow.json", "--group")[0] == ["flow"]
    assert [stage.num_tasks for stage in read_trace(output).jobs[0].stages] == [2]


def test_options_of_the_alibaba_import_arrive(tmp_path: Path) -> None:
    rows = "M1,1,j,1,Terminated,10,20,100,50\nR2_1,1,j,1,Terminated,10,50,100,50\n"
    (tmp_path / "batch_task.csv").write_text(rows)
    output = tmp_path / "out.parquet"
    options = ("--machine-memory-mb", 1_000, "--raw-starts")
    run("import", "alibaba", tmp_path / "batch_task.csv", "-o", output, *options)
    stage = read_trace(output).jobs[0].stages[1]
    assert (stage.memory_mb, stage.mean_ms) == (500.0, 40_000.0)


def test_several_files_become_one_trace(tmp_path: Path) -> None:
    (tmp_path / "more.csv").write_text("job,stage,num_tasks,task_ms\nthird,s,1,5\n")
    output = tmp_path / "all.parquet"
    succeeded(run("import", "csv", EXAMPLES / "jobs.csv", tmp_path / "more.csv", "-o", output))
    assert [job.name for job in load_trace(output).jobs] == ["report", "lookup", "third"]
    assert load_trace(output).name == "all"
    twice = run("import", "csv", EXAMPLES / "jobs.csv", EXAMPLES / "jobs.csv", "-o", output)
    refused(twice, "'report' is used twice")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("info", "nope"), ("nope: no such file", "tpch-like")),
        (("info",), ("Missing argument 'TRACE'", "info --help")),
        (("info", "tpch-like", "--jsn"), ("No such option",)),
        (("infos",), ("No such command 'infos'",)),
        (("validate", "nope.parquet"), ("'nope.parquet' does not exist",)),
        (("validate", __file__), ("suffix '.py' is none of",)),
        (("show", "tpch-like", "zz"), ("no job 'zz'",)),
        (("show", "tpch-like", "2g/q1", "-o", "x.pdf"), ("suffix '.pdf'",)),
        (("import", "csv", __file__, "-o", "x.parquet"), ("test_cli_traces.py:1:",)),
        (("import", "csv", EXAMPLES / "jobs.csv"), ("Missing option '-o'",)),
        (("import", "csv", EXAMPLES / "jobs.csv", "-o", "none/x.parquet"), ("cannot write",)),
        (("import", "csv", __file__, "-o", "x.csv"), ("ends in .parquet",)),  # before it is read
        (("import", "alibaba", EXAMPLES, "-o", "x.parquet"), ("is a directory",)),
        (("import", "alibaba", EXAMPLES / "jobs.csv", "-o", "x.parquet"), ("no usable job",)),
        (("import", "alibaba", __file__, "--limit", "x", "-o", "x.parquet"), ("'x' is not",)),
        (("import", "decima-sim", EXAMPLES, "-o", "x.parquet"), ("no adj_mat_N",)),
        (("import", "wfcommons", EXAMPLES / "jobs.json", "-o", "x.parquet"), ("schemaVersion",)),
        (("import", "spark", __file__, "-o", "x.parquet"), ("not a Spark event log",)),
        (("sample-logs", __file__), ("test_cli_traces.py",)),
        (("import", "spark", __file__, "-o", "x.csv"), ("x.csv",)),
    ],
)
def test_every_mistake_is_one_line_and_exit_code_2(
    arguments: tuple[object, ...],
    words: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    refused(run(*arguments), *words)
    assert list(tmp_path.iterdir()) == []


def failing(error: Callable[[], object]) -> Result:
    """What becomes of a command that calls `error`."""
    group = OneLineErrors("program")
    group.command("fail")(error)
    return CliRunner().invoke(group, ["fail"])


def refuse() -> None:
    raise TraceError("two\nlines")


def test_a_message_is_one_line_and_errors_of_other_libraries_keep_their_traceback() -> None:
    """A ValueError that we did not raise is our fault, and must not pass for the user's."""
    refused(failing(refuse), "two lines")
    refused(failing(lambda: load_trace("nope")), "nope")
    refused(failing(lambda: Path("none").read_text()), "none: No such file or directory")
    assert isinstance(failing(lambda: np.zeros(3).reshape(7)).exception, ValueError)


HOSTILE = "\x1b[2J\x1b]0;x\x07\x9b31m\u202e\ud800\r" + "y" * 10**5
"""clears the screen, sets a title, colours, turns text around, cannot be encoded, is long"""


def hostile_file(kind: str, folder: Path) -> tuple[str, Path]:
    """The importer and a file of one job whose names are `HOSTILE`."""
    quoted = json.dumps(HOSTILE)
    if kind == "json":
        stage = f'{{"name": {quoted}, "num_tasks": 1, "task_ms": 1}}'
        text = f'{{"name": {quoted}, "jobs": [{{"name": {quoted}, "stages": [{stage}]}}]}}'
        path = folder / "t.json"
    elif kind == "wfcommons":
        task = {"id": HOSTILE, "name": HOSTILE, "parents": [], "children": []}
        ran = {"id": HOSTILE, "runtimeInSeconds": 1}
        workflow = {"specification": {"tasks": [task]}, "execution": {"tasks": [ran]}}
        text = json.dumps({"schemaVersion": "1.5", "workflow": workflow})
        path = folder / "w.json"
    else:
        name = HOSTILE.replace("\r", "").replace("\ud800", "")[:2_000]
        row = f"{name},1,{name},1,Terminated,1,2,50,0.2"
        text = row if kind == "alibaba" else f"job,stage,num_tasks,task_ms\n{name},{name},1,1"
        path = folder / "t.csv"
    path.write_text(f"{text}\n", "utf-8")
    return kind, path


@pytest.mark.parametrize("kind", ["csv", "json", "alibaba", "wfcommons"])
def test_names_that_a_terminal_would_obey_are_shown_as_escapes(kind: str, tmp_path: Path) -> None:
    """From every importer: imported, validated, told and shown; none of it reaches a terminal."""
    importer, path = hostile_file(kind, tmp_path)
    output = tmp_path / "t.parquet"
    imported = succeeded(run("import", importer, path, "-o", output))
    (job,) = read_trace(output).jobs
    asked = (
        ("validate", output),
        ("info", output),
        ("info", output, "--json"),
        ("show", output, job.name),
        ("show", output, HOSTILE[:50]),
    )
    results = [imported, *(run(*words) for words in asked)]
    for result in results:
        said = result.stdout + result.stderr
        assert said.replace("\n", "").isprintable()
        assert len(said) < 20_000
    assert results[-1].exit_code == 2


def test_a_file_whose_name_is_hostile_is_named_in_escapes(tmp_path: Path) -> None:
    """Paths come from outside as well, by a glob over a folder that others may write to."""
    path = tmp_path / "\x1b[31m\udcff.csv"
    path.write_text("job,stage,num_tasks,task_ms\nj,a,1,1\n")
    result = succeeded(run("validate", path))
    assert r"\x1b[31m\udcff.csv: valid, 1 jobs, 1 stages, 1 tasks" in result.stdout
    assert result.stdout.count("\n") == 1
