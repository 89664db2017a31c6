"""Jobs of DeepRM from files: a table of one's own, and public traces. All samples are made up."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from decima.rl.errors import StudyError
from decima.rl.study.streams import Purpose
from deeprm.config import PAPER
from deeprm.jobs import draw_jobs
from tests.commands import raises_one_line, succeeded
from tests.studies import DEEPRM

TABLE = """arrival,duration,demand_1,demand_2
100,3,5,1
100,15,1,10
120,1,2,2
190,2,1,1
"""
ALIBABA = """M1,2,j_1,1,Terminated,86400,86520,100,0.5
R2_1,1,j_1,1,Terminated,86520,86525,50,0.1
M1,1,j_2,1,Failed,86400,86405,100,0.5
M1,1,j_3,1,Terminated,87000,99000,100,
M1,1,j_4,1,Terminated,87000,99000,100,0.2
"""
GOOGLE = """600000000,,1,0,,0,u,2,9,0.5,0.25,0.1,0
660000000,,1,0,7,1,u,2,9,0.5,0.25,0.1,0
780000000,,1,0,7,4,u,2,9,0.5,0.25,0.1,0
700000000,,2,0,,0,u,2,9,0.125,0.25,0.1,0
720000000,,2,0,7,1,u,2,9,0.125,0.25,0.1,0
760000000,,2,0,7,5,u,2,9,0.125,0.25,0.1,0
"""


def written(path: Path, text: str) -> Path:
    """The path, with that text in it."""
    path.write_text(text)
    return path


def test_a_job_set_is_a_stretch_of_the_file(tmp_path: Path) -> None:
    """50 steps from some job on; jobs that arrive together stay together."""
    path = written(tmp_path / "jobs.csv", TABLE)
    jobs = draw_jobs(replace(PAPER, jobs_file=str(path)), 40, 3, Purpose.TEST)
    stretches = {tuple(row[:n].tolist()) for n, row in zip(jobs.number, jobs.arrival, strict=True)}
    assert stretches == {(0, 0, 20), (0,)}
    three = int(np.argmax(jobs.number))
    assert jobs.duration[three].tolist() == [3, 15, 1]
    assert jobs.demand[three].tolist() == [[5, 1], [1, 10], [2, 2]]


@pytest.mark.parametrize(
    ("form", "text", "table", "words"),
    [
        ("alibaba", ALIBABA, ["0,2,10,10", "2,1,3,1", "10,15,5,2"], "3 jobs; 1 durations cut"),
        ("google", GOOGLE, ["0,2,10,10"], "1 jobs; 0 durations cut"),
    ],
)
def test_a_public_trace_becomes_a_table(
    form: str, text: str, table: list[str], words: str, tmp_path: Path
) -> None:
    """A step is a minute, the largest request 10 units. Failed and partial tasks are left out."""
    trace, out = written(tmp_path / "trace.csv", text), tmp_path / "jobs.csv"
    result = succeeded(DEEPRM.run("import", form, str(trace), "-o", str(out)))
    assert words in result.output
    assert out.read_text().splitlines() == ["arrival,duration,demand_1,demand_2", *table]
    succeeded(DEEPRM.run("evaluate", "--jobs", str(out), "--sets", "2"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "column 'arrival' is missing"),
        ("arrival,duration,demand_1\n0,1,1\n", "column 'demand_2' is missing"),
        ("arrival,duration,demand_1,demand_2,colour\n", "unknown column 'colour'"),
        ("arrival,duration,demand_1,demand_2\n", "no jobs"),
        (TABLE + "200,16,1,1\n", "duration is '16': a number from 1 to 15"),
        (TABLE + "200,1.5,1,1\n", "duration is '1.5': a whole number"),
        (TABLE + "200,1,11,1\n", "demand_1 is '11': a number from 1 to 10"),
        (TABLE + "inf,1,1,1\n", "arrival is 'inf'"),
        (TABLE + "200,1,1\n", "3 cells, where 4 are needed"),
    ],
)
def test_a_table_that_cannot_be_played_is_refused(text: str, words: str, tmp_path: Path) -> None:
    config = replace(PAPER, jobs_file=str(written(tmp_path / "jobs.csv", text)))
    with raises_one_line(StudyError, match=words):
        draw_jobs(config, 1, 0, Purpose.TEST)
