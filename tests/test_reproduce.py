"""`decima reproduce`: every figure in a tiny form, what is kept, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from torch_geometric.data import Batch

from decima.cli.main import main
from decima.registry import HEURISTICS
from decima.reproduce import bench
from decima.reproduce.bench import SCALES, Bench, Scale, batch
from decima.reproduce.comparisons import idle_memory_share, in_system
from decima.reproduce.critical_path import accuracy, labelled_graphs
from decima.reproduce.figures import FIGURES
from decima.reproduce.paper import PAPER
from decima.reproduce.trainings import imitated
from decima.rl.command import Refused
from decima.rl.drawing import write_figure
from decima.rl.loop import StopReason
from decima.rl.run_folder import RunFolder
from decima.training.session import MODEL
from tests.commands import refused
from traces import load_trace

pytestmark = pytest.mark.usefixtures("one_thread")

TINY = Scale(
    batches=2,
    streams=2,
    stream_jobs=4,
    tuning=1,
    imitate_iterations=1,
    reinforce_iterations=1,
    evolve_iterations=1,
    evolve_pairs=2,
    validation=1,
    encoder_steps=10,
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder of trainings, which several figures use."""
    return tmp_path_factory.mktemp("trainings")


@pytest.fixture(autouse=True)
def tuned(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, int]]:
    """What was tuned, on how many sequences, and held back. The shipped parameters are best."""
    calls: list[tuple[str, int, int]] = []

    def tune(policy: str, config: Any, *, held_back: int) -> Any:
        calls.append((policy, config.sequences, held_back))
        return SimpleNamespace(parameters=HEURISTICS[policy].defaults)

    monkeypatch.setattr(bench, "tune", tune)
    return calls


def test_each_figure_of_the_paper_has_one_measurement() -> None:
    assert list(PAPER) == list(FIGURES)
    for figure in PAPER.values():
        assert figure.cpu_s.keys() == SCALES.keys()
    assert sum(figure.cpu_s["quick"] for figure in PAPER.values()) <= 300


TRAINED = ("figure13", "figure14", "figure15a", "table2", "table3", "appendixE")
"""figures that need trainings, half a minute however small"""


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow if name in TRAINED else ()) for name in FIGURES],
)
def test_a_figure_is_drawn_from_its_json_alone(name: str, runs: Path, tmp_path: Path) -> None:
    """It has a value beside each published one."""
    content = json.loads(json.dumps(FIGURES[name][0](Bench(TINY, 3, runs))))
    assert content["here"].keys() == PAPER[name].published.keys()
    written = write_figure(FIGURES[name][1](content), name, tmp_path)
    assert all(path.stat().st_size > 1000 for path in written)


def test_jobs_in_the_system_by_hand() -> None:
    """Jobs arrive after 0, 1 and 2 s and take 5, 1 and 1 s."""
    time_s = np.array([0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5])
    counts = in_system(np.array([0.0, 1.0, 2.0]), np.array([5.0, 1.0, 1.0]), time_s)
    assert counts.tolist() == [1, 2, 2, 1, 1, 0, 0]


def test_idle_memory_is_weighed_by_memory_and_time() -> None:
    """An executor of 3 GB that is busy for 2 s counts six times as much as one of 1 GB for 1 s."""
    kinds = [
        SimpleNamespace(memory_mb=3072, busy_s=2.0, idle_memory_share=0.5),
        SimpleNamespace(memory_mb=1024, busy_s=1.0, idle_memory_share=0.0),
    ]
    run: Any = SimpleNamespace(metrics=SimpleNamespace(classes=kinds))
    assert idle_memory_share(run) == pytest.approx(0.5 * 6 / 7)


def test_the_longest_of_the_first_stages_is_to_be_named() -> None:
    graphs = labelled_graphs(("any-dag-1001",))
    jobs = {job.name: job for job in load_trace("any-dag-1001").jobs}
    assert len(graphs) > 10
    for graph in graphs:
        job = jobs[graph.name]
        first = [not stage.parents for stage in job.stages]
        paths_ms = np.where(first, job.critical_path_ms, 0.0)
        assert graph.is_first.tolist() == first
        assert graph.is_longest.tolist() == (paths_ms >= 0.99 * paths_ms.max()).tolist()
    several = Batch.from_data_list(graphs)
    assert accuracy(several.is_longest.float(), several) == 1.0
    wrong = -several.is_longest.float()
    all_equal = sum(bool(graph.is_longest[graph.is_first].all()) for graph in graphs)
    assert accuracy(wrong, several) == pytest.approx(all_equal / len(graphs))


def test_baselines_are_tuned_on_other_sequences(tuned: list[tuple[str, int, int]]) -> None:
    """Once for several figures."""
    tiny = Bench(TINY, 0, Path())
    for _ in range(2):
        report = tiny.compared(batch(), ("fifo", "tuned_weighted_fair"))
    defaults = HEURISTICS["tuned_weighted_fair"].defaults
    assert report.config.parameters == {"tuned_weighted_fair": defaults}
    assert tuned == [("tuned_weighted_fair", 1, 1)]


def test_a_training_goes_on_and_keeps_its_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A finished one is not trained again; one with other settings is refused."""
    sessions: list[int] = []

    def run_training(folder: RunFolder, **_: object) -> Any:
        sessions.append(len(folder.metrics()))
        if not folder.metrics():
            folder.append_metrics(config.iterations - 1, {})
        (folder.path / MODEL).touch()
        return SimpleNamespace(reason=StopReason.DONE)

    monkeypatch.setattr(bench, "run_training", run_training)
    tiny = Bench(TINY, 0, tmp_path)
    config = imitated(tiny)
    model = Path(tiny.model("full", config))
    model.unlink()
    assert tiny.model("full", config) == tiny.model("full", config) == str(model)
    assert sessions == [0, 1]
    with pytest.raises(Refused, match="was trained with other settings"):
        tiny.model("full", imitated(tiny, "network.messages=false"))


def reproduce(out: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["reproduce", "--out", str(out), *arguments])


def test_a_figure_that_is_there_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page has all that are, also those of another call; --force measures again."""
    monkeypatch.setitem(SCALES, "quick", TINY)
    only = ("--quick", "--only", "figure9a")
    first = reproduce(tmp_path, *only)
    assert first.exit_code == 0, first.output
    content = json.loads((tmp_path / "figure9a.json").read_text())
    assert content["measured_with"] == {"scale": "quick", "seed": 0}
    assert (tmp_path / "figure9a.svg").exists()

    assert "figure9a is there" in reproduce(tmp_path, *only).stderr
    assert reproduce(tmp_path, "--quick", "--only", "figure10").exit_code == 0
    page = (tmp_path / "index.html").read_text()
    for name in ("figure9a", "figure10"):
        for what, published in PAPER[name].published.items():
            assert what in page
            assert f"<td>{published}</td>" in page
    assert page.count("data:image/png;base64,") == 2
    assert "2 sequences of 20 jobs, seed 0, quick" in page

    refused(reproduce(tmp_path, *only, "--seed", "1"), "other settings", "--force")
    assert reproduce(tmp_path, *only, "--seed", "1", "--force").exit_code == 0
    other = json.loads((tmp_path / "figure9a.json").read_text())
    assert other["avg_jct_s"] != content["avg_jct_s"]
    page = (tmp_path / "index.html").read_text()
    assert PAPER["figure9a"].title in page
    assert PAPER["figure10"].title not in page, "it was measured with another seed"


def test_mistakes_are_one_line(tmp_path: Path) -> None:
    refused(reproduce(tmp_path / "x", "--only", "figure8"), "figure8", "figure9a")
    refused(reproduce(tmp_path / "x", "--seed", "-1"), "--seed")
    (tmp_path / "figure9a.json").write_text("[]")
    refused(reproduce(tmp_path, "--only", "figure9a"), "other settings")
    (tmp_path / "figure9a.json").write_text("{")
    refused(reproduce(tmp_path, "--only", "figure9a"), "figure9a.json")
    assert not (tmp_path / "x").exists()
