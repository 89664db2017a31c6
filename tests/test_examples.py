"""The programs in `examples/`: each runs and prints what it promises."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from decima.rl.study.streams import Purpose
from deeprm.config import PAPER
from deeprm.episodes import Episodes
from deeprm.jobs import draw_jobs
from deeprm.objectives import Objective

ROOT = Path(__file__).parents[1]
EXAMPLE_FOLDER = ROOT / "examples"
EXAMPLES = sorted(EXAMPLE_FOLDER.glob("*.py"))
TIMEOUT_S = 600
"""a machine that has run nothing yet compiles the simulator first"""


def start(
    name: str, *arguments: str, environment: Mapping[str, str] = os.environ
) -> subprocess.CompletedProcess[str]:
    """Run an example from the repository's root, with the packages of this tree."""
    return subprocess.run(  # noqa: S603 - our own program
        [sys.executable, f"examples/{name}.py", *arguments],
        cwd=ROOT,
        env={**environment, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def printed(name: str, *arguments: str) -> str:
    """Standard output of an example that must succeed."""
    done = start(name, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_policy_of_ones_own_has_its_difference() -> None:
    """Both values of `slack` are in the table, with an interval each."""
    output = printed("write_a_policy", "--jobs", "15", "--sequences", "3")
    for slack in ("0.25", "0.75"):
        assert re.search(rf"^useful_shares x{slack} .+ % \[.+\]$", output, re.MULTILINE), output


@pytest.mark.slow
def test_reinforce_learns() -> None:
    """After ten iterations the average JCT of held-out sequences is a tenth lower."""
    output = printed("train_reinforce", "--iterations", "10")
    curve = {
        int(at): float(jct_s) for at, jct_s in re.findall(r"^ +(\d+) +([\d.]+) s", output, re.M)
    }
    assert list(curve) == [0, 10]
    assert curve[10] < 0.9 * curve[0]


@pytest.mark.slow
def test_deeprm_in_one_file_learns() -> None:
    """After twenty iterations the slowdown of held-out job sets is a tenth lower."""
    output = printed("deeprm_reinforce", "--iterations", "20", "--job-sets", "5")
    curve = {
        int(at): float(slowdown)
        for at, slowdown in re.findall(r"^ +(\d+)  ([\d.]+) \+-", output, re.M)
    }
    assert list(curve) == [0, 10, 20]
    assert curve[20] < 0.9 * curve[0]


def test_deeprm_in_one_file_has_the_cluster_of_the_package() -> None:
    """The same job sets and random actions end at the same slowdowns."""
    path = EXAMPLE_FOLDER / "deeprm_reinforce.py"
    source = importlib.util.spec_from_file_location("one_file", path)
    assert source is not None
    assert source.loader is not None
    one_file = importlib.util.module_from_spec(source)
    source.loader.exec_module(one_file)
    jobs = draw_jobs(PAPER.at_load(1.3), 8, 1, Purpose.TEST)
    arrival = np.where(jobs.duration > 0, jobs.arrival, one_file.MAX_STEPS)
    columns = (arrival, np.maximum(jobs.duration, 1), jobs.demand)
    cluster = one_file.Cluster(one_file.Jobs(jobs.number, *columns), np.arange(8))
    episodes = Episodes(PAPER, jobs)
    rng = np.random.default_rng(0)
    while len(rows := episodes.under_way()) > 0:
        action = rng.integers(PAPER.actions, size=8)
        cluster.step(action)
        episodes.step(rows, action[rows].astype(np.int32))
    cost = Objective.SLOWDOWN.reward(PAPER, episodes.state.cost)
    np.testing.assert_allclose(cluster.earned, cost, rtol=1e-12)
    assert cluster.done().all()


@pytest.mark.slow
def test_embeddings_learn_critical_paths() -> None:
    """Better with the second transform than without, and than convolutions; on jobs of a kind that
    no training saw, too.
    """
    rows = printed("critical_path").splitlines()[1:]
    errors = np.array([re.findall(r"([\d.]+) %", row)[::2] for row in rows], float)
    assert errors.shape == (4, 2)
    assert (errors[0] < 0.8 * errors[1:].min(0)).all(), rows


@pytest.mark.slow
def test_ppo_learns() -> None:
    """On sequences that it has not seen it comes near strict fair, if not below: rounding differs
    between processors, and with it the luck of a training.
    """

    lines = printed("ppo")
    jct_s = [float(number) for number in re.findall(r"average JCT ([\d.]+) s", lines)]
    assert jct_s[-1] < 0.8 * jct_s[0]
    (percent,) = re.findall(r"^([+-][\d.]+) %, lower in", lines, re.M)
    assert float(percent) < 20


@pytest.mark.slow
def test_advice_comes_from_the_sample_log() -> None:
    """Recorded jobs never wait; submitted faster, they wait for each other."""
    output = printed("what_if_on_a_log", "--draws", "3", "--sequences", "6")
    recorded, faster = output.split("Submitted 10 times as fast")
    assert "4 jobs on 2 slots." in recorded
    assert "can be relied on" in " ".join(recorded.split())
    assert "Next to nothing to gain" in " ".join(recorded.split())
    assert "Waiting for other jobs is" in " ".join(faster.split())


def test_a_folder_without_logs_is_one_line(tmp_path: Path) -> None:
    done = start("what_if_on_a_log", str(tmp_path))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert done.stderr.startswith("error: ")


@pytest.mark.slow
@pytest.mark.real_spark
def test_small_jobs_overtake_on_a_live_spark() -> None:
    """Limits of the plans, and a small job that ends sooner than under Spark's FIFO."""
    output = printed("attach_to_spark", "--tasks", "60")
    assert re.search(r"job large \d, job small \d \d\*", output), output
    assert re.search(r"\d+ plans, 0 fallbacks, mode exact\. Detached\.", output)
    plain_s, attached_s = re.findall(r"^small 1 +([\d.]+) s +([\d.]+) s$", output, re.MULTILINE)[0]
    assert float(attached_s) < float(plain_s)


def test_without_java_attaching_is_one_line(tmp_path: Path) -> None:
    """And no traceback; likewise without pyspark, which hides Java's line."""
    bare = {key: value for key, value in os.environ.items() if key != "JAVA_HOME"}
    done = start("attach_to_spark", environment={**bare, "PATH": str(tmp_path)})
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "Java 17 or newer" in done.stderr or "pip install" in done.stderr


def test_the_readme_names_every_example_and_each_its_command() -> None:
    text = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"\]\((\w+\.py)\)", text)) == [path.name for path in EXAMPLES]
    for path in EXAMPLES:
        docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        assert f"    python examples/{path.name}\n" in docstring
