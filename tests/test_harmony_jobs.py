"""Jobs and interference of Harmony from files of one's own. All samples are made up."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from decima.rl.errors import StudyError
from decima.rl.study.models import MODEL
from decima.rl.study.streams import Purpose
from harmony.clusters import Clusters
from harmony.config import PAPER
from harmony.jobs import draw_jobs, job_sequence
from harmony.measured import measured, types_of
from harmony.tables import NONE
from tests.commands import raises_one_line, succeeded
from tests.harmony_clusters import ONLY, TINY, act
from tests.studies import HARMONY, few_samples

MOE, DLRM = "MoE", "DLRM"
HEADER = "arrival_min,model,workers,ps,minutes\n"
HELIOS = """job_id,user,vc,gpu_num,state,submit_time,start_time,end_time,duration
1,u1,v,4,COMPLETED,2020-04-01 00:00:00,2020-04-01 00:01:00,2020-04-01 01:01:00,3600
2,u2,v,0,COMPLETED,2020-04-01 00:00:00,2020-04-01 00:01:00,2020-04-01 01:01:00,3600
3,u1,v,1,FAILED,2020-04-01 00:30:00,2020-04-01 00:31:00,2020-04-01 00:41:00,600
"""
ALIBABA = """j1,worker,2,Terminated,1000,4600,600,29,100,V100
j1,ps,1,Terminated,1000,4600,600,29,,
j2,tensorflow,1,Failed,1000,4600,600,29,50,MISC
j3,tensorflow,1,Terminated,2800,3400,600,29,50,MISC
"""
PHILLY: list[dict[str, Any]] = [
    {
        "status": "Pass",
        "vc": "v",
        "jobid": "application_1",
        "attempts": [
            {
                "start_time": "2017-10-09 07:10:00",
                "end_time": "2017-10-09 08:10:00",
                "detail": [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}, {"ip": "m2", "gpus": ["gpu0"]}],
            }
        ],
        "submitted_time": "2017-10-09 07:00:00",
        "user": "\udf73",  # half a character, as JSON can write one
    },
    {
        "status": "Killed",
        "vc": "v",
        "jobid": "application_2",
        "attempts": [],
        "submitted_time": "2017-10-09 07:00:00",
        "user": "u1",
    },
]
TABLE: dict[str, Any] = {
    "models": [
        {"name": "fast", "epochs_per_min": 2.0, "scaling": 0.5, "spread": 0.8},
        {"name": "slow", "epochs_per_min": 0.5, "worker": [1, 4, 8, 5], "largest_tensor": 0.7},
    ],
    "ratio": [[1.0, 0.5], [0.25, 0.9]],
}


def written(path: Path, text: str) -> Path:
    """The path, with that text in it."""
    path.write_text(text)
    return path


def own(path: Path, **changes: Any) -> str:
    """Path of a table of two models, changed."""
    return str(written(path / "table.json", json.dumps(TABLE | changes)))


# --- jobs ----------------------------------------------------------------------------------------


def test_sequences_take_jobs_of_a_file_in_a_row(tmp_path: Path) -> None:
    """From a random one on; gaps are stretched to the mean rate."""
    rows = "".join(f"{5 * k},{MOE if k % 2 else DLRM},{1 + k % 3},0,{10 + k}\n" for k in range(8))
    path = written(tmp_path / "jobs.csv", HEADER + rows)
    config = replace(PAPER, jobs=6, jobs_file=str(path)).arriving("trace")
    jobs = draw_jobs(config, 1, 4, Purpose.TEST)
    models, first = measured().models, int(jobs.workers[0, 0])
    assert jobs.workers[0, :3].tolist() == [(first - 1 + k) % 3 + 1 for k in range(3)] or (
        0 in np.diff(jobs.model[0])
    )
    assert set(jobs.model[0].tolist()) == {models.index(MOE), models.index(DLRM)}
    assert (np.diff(jobs.arrival_min[0]) >= 0.0).all()
    assert (jobs.ps == 0).all()


@pytest.mark.parametrize(
    ("form", "text", "rows"),
    [
        ("helios", HELIOS, ["0.000,3,0,60.000", "30.000,1,0,10.000"]),
        ("alibaba", ALIBABA, ["0.000,2,1,60.000", "30.000,1,0,10.000"]),
        ("philly", json.dumps(PHILLY), ["0.000,3,0,60.000"]),
    ],
)
def test_a_public_trace_becomes_a_table(
    form: str, text: str, rows: list[str], tmp_path: Path
) -> None:
    """At most 3 workers; an owner's jobs are of one model. Jobs without a GPU are left out."""
    trace, out = written(tmp_path / "trace", text), tmp_path / "jobs.csv"
    succeeded(HARMONY.run("import", form, str(trace), "-o", str(out)))
    table = [line.split(",") for line in out.read_text().splitlines()[1:]]
    assert [",".join((arrival, *rest)) for arrival, _, *rest in table] == rows
    assert {model for _, model, *_ in table} <= set(measured().models)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("arrival_min,model\n", "column 'workers' is missing"),
        (HEADER, "no jobs"),
        (HEADER + "0,ResNet,1,0,10\n", "model is 'ResNet'; there are MobileNetV3"),
        (HEADER + "0,MoE,4,0,10\n", "workers is '4': a number from 1 to 3"),
        (HEADER + "0,MoE,1,0,inf\n", "minutes is 'inf'"),
    ],
)
def test_a_table_of_jobs_that_cannot_run_is_refused(text: str, words: str, tmp_path: Path) -> None:
    config = replace(PAPER, jobs_file=str(written(tmp_path / "jobs.csv", text)))
    with raises_one_line(StudyError, match=words):
        draw_jobs(config, 1, 0, Purpose.TEST)


# --- jobs that need servers of their own ---------------------------------------------------------


def test_an_exclusive_job_shares_no_server() -> None:
    """Two servers: the first has a job, so the exclusive one may take the second alone."""
    jobs = [(0.0, MOE, 1, 0, 1.0)] * 3
    clusters = Clusters(TINY, job_sequence(TINY, jobs, [False, True, False]))

    act(clusters, 0)
    assert clusters.masks(ONLY)[0].tolist() == [False, True, False, False]
    act(clusters, 1)
    assert clusters.state.owner[0].tolist() == [NONE, 1]
    assert clusters.masks(ONLY)[0].tolist() == [True, False, False, False]


# --- interference of one's own -------------------------------------------------------------------


def test_a_table_of_ones_own_gives_speeds(tmp_path: Path) -> None:
    """Two workers are 2 ** 0.5 times as fast; spread out over servers, 0.8 times that."""
    config = replace(TINY, table_file=own(tmp_path))
    types = types_of(config)
    assert types.alone[0, 1, 0, 1] == 2.0
    assert types.alone[0, 2, 0, 2] == pytest.approx(2.0 * 2**0.5 * 0.8)
    jobs = job_sequence(config, [(0.0, "fast", 1, 0, 9.0), (0.0, "slow", 1, 0, 9.0)])
    clusters = Clusters(config, jobs)
    act(clusters, 0, 0)
    assert types.ratio.tolist() == TABLE["ratio"]
    # fast at 1 a minute beside slow at 0.125: over after 9; then slow alone at 0.5.
    assert clusters.completion_min()[0].tolist() == pytest.approx([9.0, 9.0 + (9 - 1.125) / 0.5])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"models": []}, "a list `models` of 1 to 64"),
        ({"colour": 1}, "unknown key 'colour'"),
        ({"ratio": [[1.0, 0.5]]}, "ratio must be 2 rows of 2 numbers"),
        ({"ratio": [[1.0, 0.0], [0.5, 1.0]]}, r"ratio of row 0, column 1 is 0\.0: above 0"),
        ({"ratio": [[1.0, 1e400], [0.5, 1.0]]}, "ratio|NaN|Infinity"),
        ({"models": [{"name": "a"}], "ratio": [[1.0]]}, r"model 0: epochs_per_min is 0\.0"),
        ({"models": [{"name": "a", "x": 1}], "ratio": [[1.0]]}, "unknown setting x"),
        ({"models": [{"name": "\x1b[2J", "epochs_per_min": 1}]}, "1 to 100 printable characters"),
        ({"models": [{"name": "\ud800", "epochs_per_min": 1}]}, "Invalid JSON"),
        (
            {"models": [{"name": "a", "epochs_per_min": 1, "worker": [0, 1, 1, 1]}]},
            "a worker has 0 GPUs",
        ),
    ],
)
def test_a_table_that_is_none_is_refused(
    changes: dict[str, Any], words: str, tmp_path: Path
) -> None:
    path = own(tmp_path, **changes)
    with raises_one_line(StudyError, match=words):
        measured(path)


def test_one_command_trains_on_ones_own_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The policy knows two models, is compared on them, and refused where there are six."""
    few_samples(monkeypatch)
    table = own(tmp_path)
    succeeded(HARMONY.train(tmp_path / "run", "--table", table))
    model = str(tmp_path / "run" / MODEL)
    succeeded(HARMONY.run("evaluate", "--table", table, "--sequences", "2", model))
    refused = HARMONY.run("evaluate", "--sequences", "2", model)
    assert refused.exit_code == 2
    assert "a network for 2 models, where the table of interference has 6" in refused.stderr
