"""Types of GPU: room, speeds, and what policies see of them. All samples are made up."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from decima.rl.errors import StudyError
from decima.rl.study.streams import Draws, Purpose
from harmony.clusters import Clusters
from harmony.config import PAPER, Config
from harmony.evaluation import baselines, completion_of
from harmony.interference import draw_samples
from harmony.jobs import draw_jobs, job_sequence, read_table
from harmony.models import Learned, network_to_begin_with, new_network
from harmony.network import Size
from harmony.schedulers import LoadBalance, Lookahead, Tetris
from harmony.serving import place
from harmony.tables import NONE, WORKER
from harmony.tokens import see
from harmony.training_config import TrainConfig
from tests.commands import succeeded
from tests.harmony_clusters import ONLY, TINY, act, random_actions, save_model
from tests.studies import HARMONY, few_samples
from tests.test_harmony_jobs import ALIBABA, HEADER, PHILLY, written

MOE, DLRM = "MoE", "DLRM"
TWO = ("P100:1:1", "V100:1:2")
MIXED = replace(TINY, gpu_types=TWO)
"""a server of each"""
BUSY = replace(PAPER, jobs=20, gpu_types=("P100:4:1", "V100:2:2"), gpu_required_share=0.5)
SMALL = Size(width=16, heads=2, layers=1)


def clusters_of(config: Config, *jobs: tuple[int, int, str]) -> Clusters:
    """Jobs of (workers, parameter servers, type of GPU) that come at once, 10 epochs each."""
    rows = [(0.0, MOE, workers, ps, 10.0) for workers, ps, _ in jobs]
    return Clusters(config, job_sequence(config, rows, gpu=[gpu for *_, gpu in jobs]))


# --- the cluster ---------------------------------------------------------------------------------


@pytest.mark.parametrize("speed", ["measured", "analytic"])
def test_a_job_is_as_fast_as_its_slowest_gpu(speed: Any) -> None:
    """Twice as fast on the V100 alone, and as fast as on P100s with a worker on each."""
    speeds = {}
    for servers in ((0,), (1,), (0, 1)):
        for config in (MIXED, TINY):
            clusters = clusters_of(replace(config, speed=speed), (len(servers), 0, ""))
            act(clusters, *servers)
            speeds[servers, config.gpu_types] = clusters.completion_min()[0, 0]
    for servers, factor in (((0,), 1.0), ((1,), 2.0), ((0, 1), 1.0)):
        assert speeds[servers, TWO] * factor == pytest.approx(speeds[servers, ()])


def test_a_parameter_server_needs_no_gpu() -> None:
    """It slows no job by the GPUs of its server, and may be anywhere."""
    clusters = clusters_of(MIXED, (1, 1, "V100"))
    assert clusters.masks(ONLY)[0].tolist() == [False, True, True, True]
    act(clusters, 1, 2)
    alone = clusters.types.alone[clusters.jobs.model[0, 0], 1, 1, 2]
    assert clusters.completion_min()[0, 0] == pytest.approx(10.0 / (2.0 * alone))


def test_workers_wait_for_the_type_that_they_need() -> None:
    """Two V100s are taken, so the second job waits, and the third, which needs none, does not."""
    clusters = clusters_of(MIXED, (2, 0, "V100"), (1, 0, "V100"), (1, 0, ""))
    assert clusters.masks(ONLY)[0].tolist() == [False, True, False, False]
    act(clusters, 1, 1)
    assert clusters.state.current[0] == 2
    act(clusters, 0)
    assert clusters.state.current[0] == 1
    assert clusters.state.interval[0] > 0


def test_no_worker_ever_runs_on_another_type() -> None:
    """Whatever is done; and all jobs complete."""
    clusters = Clusters(BUSY, draw_jobs(BUSY, 3, 5, Purpose.TEST))
    needed = clusters.jobs.gpu
    assert set(np.unique(needed)) == {NONE, 0, 1}
    rng = np.random.default_rng(0)
    while len(rows := clusters.under_way()) > 0:
        clusters.step(rows, random_actions(clusters, rows, rng))
        for e in range(3):
            for job in np.nonzero(needed[e] != NONE)[0]:
                there = clusters.state.placed[e, job, :, WORKER] > 0
                assert (clusters.state.gpu[e, there] == needed[e, job]).all()
    assert clusters.complete.all()


# --- who sees it ---------------------------------------------------------------------------------


def test_of_equal_servers_the_fastest_is_taken() -> None:
    """In an empty cluster, by every heuristic, also by LIF that was fitted to two types."""
    samples = draw_samples(MIXED, 60, 0)
    assert (samples.speed <= samples.alone * (1 + 1e-9)).all()
    clusters = clusters_of(MIXED, (1, 0, ""))
    fitted = baselines(MIXED, samples)
    schedulers = (
        LoadBalance(),
        Tetris(),
        Lookahead(None),
        fitted["lif_linear"],
        fitted["lif_quad"],
    )
    for scheduler in schedulers:
        assert scheduler.choose(clusters, ONLY, Draws(0, 1)).tolist() == [1]


def test_a_policy_sees_types_and_speeds() -> None:
    """The type that the job needs, that of each server, and their speeds over the fastest."""
    clusters = clusters_of(MIXED, (2, 0, ""), (1, 0, "V100"))
    act(clusters, 0)
    scene = see(clusters, ONLY)
    assert scene.server[0, :, -3:].tolist() == [[1.0, 0.0, 0.5], [0.0, 1.0, 1.0]]
    assert scene.job[0, :, -3:].tolist() == [[0.0, 0.0, 0.5], [0.0, 1.0, 0.0]]
    assert new_network(replace(SMALL, gpu_types=2)).policy(scene).shape == (1, 4)


def test_a_policy_that_ignores_types_still_places() -> None:
    """One for a single type; one for three is refused in a cluster of two."""
    jobs = draw_jobs(BUSY, 2, 1, Purpose.TEST)
    times = completion_of(Learned(new_network(SMALL).policy, BUSY), BUSY, jobs, 0)
    assert np.isfinite(times).all()
    with pytest.raises(StudyError, match="for 3 types of GPU, where the cluster has 2"):
        Learned(new_network(replace(SMALL, gpu_types=3)).policy, BUSY)


def test_a_training_begins_with_a_policy_that_ignored_types(tmp_path: Path) -> None:
    """It scores as before until it learns, whatever the types."""
    path = tmp_path / "model.safetensors"
    save_model(path, TrainConfig(size=SMALL), new_network(SMALL, 3).state_dict(), {})
    config = TrainConfig(cluster=BUSY, size=replace(SMALL, gpu_types=2))
    wide = network_to_begin_with(path, config)
    scene = see(clusters_of(MIXED, (1, 0, "V100")), ONLY)
    narrow = network_to_begin_with(path, TrainConfig(size=SMALL))
    with torch.no_grad():
        assert wide.policy(scene).tolist() == narrow.policy(scene).tolist()
        assert wide.value(scene).tolist() == narrow.value(scene).tolist()


def test_a_policy_is_trained_and_compared_with_types(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--gpu` gives the servers, and the network its columns."""
    few_samples(monkeypatch)
    gpus = ("--gpu", "P100:4:1", "--gpu", "V100:3:2")
    share = ("--set", "cluster.gpu_required_share=0.3")
    succeeded(HARMONY.train(tmp_path / "run", *gpus, *share, iterations=1))
    model = str(tmp_path / "run" / "model.safetensors")
    few = ("--set", "jobs=4", "--set", "gpu_required_share=0.3", "--sequences", "2")
    compared = succeeded(HARMONY.run("evaluate", *gpus, *few, model))
    assert "lookahead_gittins" in compared.output


# --- descriptions from outside -------------------------------------------------------------------


def test_a_job_of_a_described_cluster_gets_its_type() -> None:
    """Servers may come in any order."""
    config = replace(PAPER, gpu_types=("P100:4:1", "V100:2:2"))
    network = new_network(replace(SMALL, gpu_types=2)).policy
    asked: dict[str, Any] = {
        "servers": ["a", "b", "c"],
        "gpus": {"a": "V100", "b": "P100", "c": "V100"},
        "running": [{"model": MOE, "workers": ["c"], "ps": [], "gpu": "V100"}],
        "job": {"model": DLRM, "count": {"workers": 2}, "gpu": "P100"},
    }
    assert place(network, config, asked) == {"workers": ["b", "b"], "ps": []}
    asked["job"] = {"model": DLRM, "count": {"workers": 3}, "gpu": "V100"}
    assert sorted(place(network, config, asked)["workers"]) == ["a", "a", "c"]
    for changes, words in (
        ({"gpus": {"a": "V100"}}, "an object `gpus` is needed"),
        ({"gpus": dict.fromkeys("abc", "T4")}, "GPU is 'T4'; there are P100, V100"),
        ({"job": {"model": DLRM, "count": {"workers": 1}, "gpu": 1}}, "job 1: gpu is 1"),
    ):
        with pytest.raises(StudyError, match=words):
            place(network, config, {**asked, **changes})
    with pytest.raises(StudyError, match="GPUs that are all alike"):
        place(network, PAPER, asked)


@pytest.mark.parametrize(
    ("form", "text", "machines", "rows"),
    [
        ("alibaba", ALIBABA, None, ["0.000,2,1,120.000,V100", "30.000,1,0,10.000,"]),
        ("philly", json.dumps(PHILLY), None, ["0.000,3,0,60.000,"]),
        ("philly", json.dumps(PHILLY), "m1,8, 12GB\nm2,8, 12GB\n", ["0.000,3,0,60.000,12GB"]),
        ("philly", json.dumps(PHILLY), "m1,8, 12GB\nm2,8, 24GB\n", ["0.000,3,0,60.000,"]),
    ],
)
def test_the_type_that_a_job_ran_on_is_imported(
    form: str, text: str, machines: str | None, rows: list[str], tmp_path: Path
) -> None:
    """Minutes are those on GPUs of speed 1; a job on several types needs none."""
    trace, out = written(tmp_path / "trace", text), tmp_path / "jobs.csv"
    options = ["--gpu", "V100:3:2", "--gpu", "12GB:3:1"]
    if machines is not None:
        options += ["--machines", str(written(tmp_path / "machines", machines))]
    succeeded(HARMONY.run("import", form, str(trace), "-o", str(out), *options))
    header, *table = (line.split(",") for line in out.read_text().splitlines())
    assert header[-1] == "gpu"
    assert [",".join((arrival, *rest)) for arrival, _, *rest in table] == rows
    config = replace(PAPER, gpu_types=("V100:3:2", "12GB:3:1"))
    assert len(read_table(str(out), config).gpu) == len(rows)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("0,MoE,1,0,10,T4\n", ":2: GPU is 'T4'; there are P100, V100"),
        ("0,MoE,3,0,10,P100\n", ":2: 3 workers, but there are 2 GPUs of P100"),
    ],
)
def test_a_job_whose_type_is_missing_is_refused(row: str, words: str, tmp_path: Path) -> None:
    path = written(tmp_path / "jobs.csv", HEADER.strip() + ",gpu\n" + row)
    config = replace(PAPER, servers=2, gpu_types=TWO)
    with pytest.raises(StudyError, match=words):
        read_table(str(path), config)
    with pytest.raises(StudyError, match="the cluster names none"):
        read_table(str(path), replace(PAPER, servers=2))


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (("V100",), "'V100': NAME:SERVERS:SPEED is needed"),
        ((":6:1",), "NAME:SERVERS:SPEED"),
        (("V100:-1:1",), "servers must not be negative"),
        (("V100:6:0",), r"a speed from 0\.01 to 100"),
        (("V100:6:nan",), "a speed from"),
        (("V100:5:1",), "has 5 servers, where the cluster has 6"),
        (("V100:3:1", "V100:3:2"), "names a type twice"),
        (tuple(f"T{n}:1:1" for n in range(17)), "at most 16"),
        ((), "for clusters of several gpu_types"),
    ],
)
def test_types_that_are_none_are_refused(texts: tuple[str, ...], words: str) -> None:
    """Also a share of jobs that need a type where there is but one."""
    with pytest.raises(StudyError, match=words):
        replace(PAPER, gpu_types=texts, gpu_required_share=0.5 * (not texts))
