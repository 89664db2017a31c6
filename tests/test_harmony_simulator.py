"""Harmony's cluster: stories solved on paper, and what holds under any placement."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decima.rl.errors import StudyError
from decima.rl.study.streams import Purpose
from harmony.clusters import Clusters
from harmony.config import LARGE, PAPER, Config
from harmony.interference import measure
from harmony.jobs import draw_jobs, job_sequence, read_arrivals
from harmony.measured import measured, types, types_of
from harmony.tables import NONE, Float64, Int32
from tests.harmony_clusters import ONLY, TINY, act, random_actions, tiny_configs

FSDP, MOE, GRAPH, MOBILE = "FSDP", "MoE", "GraphSage", "MobileNetV3"


def ratio(row: tuple[str, int, int], column: tuple[str, int, int]) -> float:
    """As measured: of jobs by (model, GPUs, GPUs a server)."""
    data = measured()
    keys = [(data.models[m], int(g), int(d)) for m, g, d in data.configuration]
    return float(data.ratio[keys.index(row), keys.index(column)])


def alone(config: Config, model: str, workers: int, ps: int, servers: int) -> float:
    """Epochs a minute."""
    return float(types_of(config).alone[measured().models.index(model), workers, ps, servers])


# --- what was measured ---------------------------------------------------------------------------


def test_a_job_like_a_measured_one_runs_at_its_measured_speed() -> None:
    """All 36 of them: samples a second, in epochs of 5 minutes of a job of 2 GPUs."""
    path = Path(__file__).parents[1] / "harmony" / "data" / "interference.json"
    content = json.loads(path.read_text())["deepshare"]
    table = types(8, 8, 8)
    for (model, gpus, nodes), speed in zip(
        content["configurations"], content["samples_per_s"], strict=True
    ):
        epoch = content["samples_in_all"]["2"][model] / 12
        assert table.alone[model, gpus, 0, nodes] == pytest.approx(60 * speed / epoch, rel=1e-12)


def test_what_was_not_measured_lies_between_what_was() -> None:
    """3 workers on 3 servers between 2 on 2 and 4 on 4; one is half of two on one server."""
    table = types(8, 8, 8).alone
    for model in range(len(measured().models)):
        low, high = sorted((table[model, 2, 0, 2], table[model, 4, 0, 4]))
        assert low <= table[model, 3, 0, 3] <= high
        assert table[model, 1, 0, 1] == pytest.approx(table[model, 2, 0, 1] / 2)


def test_the_data_names_its_sources_and_licences() -> None:
    """Both may be shipped, with that."""
    path = Path(__file__).parents[1] / "harmony" / "data" / "interference.json"
    content = json.loads(path.read_text())
    licences = {name: content[name]["licence"] for name in ("deepshare", "gavel")}
    assert licences == {"deepshare": "Apache-2.0", "gavel": "MIT"}
    assert all(content[name]["source"].startswith("https://") for name in licences)


# --- stories -------------------------------------------------------------------------------------


def test_a_job_alone_is_complete_when_its_epochs_are_trained() -> None:
    """2 workers on 2 servers train an epoch in about 5 minutes: 6 epochs, from minute 20 on."""
    clusters = Clusters(TINY, job_sequence(TINY, [(1.0, MOBILE, 2, 0, 6.0)]))
    assert clusters.state.interval.tolist() == [1]

    reward = act(clusters, 0, 1)

    needs_min = 6 / alone(TINY, MOBILE, 2, 0, 2)
    assert needs_min == pytest.approx(30.0, rel=1e-4)
    assert clusters.completion_min()[0, 0] == pytest.approx(19.0 + needs_min)
    assert reward == pytest.approx(1.0)
    assert clusters.over.tolist() == [True]


def test_neighbours_slow_each_other_until_one_is_complete() -> None:
    """Both on both servers, each as measured beside the other; then the longer is alone."""
    jobs = job_sequence(TINY, [(0.0, FSDP, 2, 0, 2.0), (0.0, MOE, 2, 0, 8.0)])
    clusters = Clusters(TINY, jobs)

    act(clusters, 0, 1, 0, 1)

    first, second = (FSDP, 2, 1), (MOE, 2, 1)
    fast, slow = alone(TINY, FSDP, 2, 0, 2), alone(TINY, MOE, 2, 0, 2)
    end = 2.0 / (fast * ratio(first, second))
    trained = end * slow * ratio(second, first)
    assert clusters.state.end_min[0].tolist() == pytest.approx([end, end + (8 - trained) / slow])


def speeds(clusters: Clusters) -> list[float]:
    """Epochs a minute of the jobs that run, in the order of their placement."""
    count = int(clusters.state.running_count[0])
    return [float(speed) for speed in measure(clusters, ONLY).speed[0, :count]]


@pytest.mark.parametrize("several", ["worst", "product"])
def test_the_rule_for_several_neighbours(several: Any) -> None:
    """The ratios beside each of two are multiplied, or the lower one counts alone."""
    config = replace(TINY, gpus=4, cores=16, several=several)
    names = (GRAPH, FSDP, MOE, GRAPH)
    clusters = Clusters(config, job_sequence(config, [(0.0, name, 1, 0, 9.0) for name in names]))
    act(clusters, 0, 0, 0)

    beside = [ratio((GRAPH, 2, 1), (name, 2, 1)) for name in (FSDP, MOE)]
    kept = min(beside) if several == "worst" else beside[0] * beside[1]
    assert speeds(clusters)[0] == pytest.approx(kept * alone(config, GRAPH, 1, 0, 1))


def test_a_parameter_server_makes_a_neighbour_and_spreads_its_job() -> None:
    """The worker of a job and the worker of another are apart; the parameter server is not."""
    jobs = job_sequence(
        TINY, [(0.0, FSDP, 1, 1, 9.0), (0.0, MOE, 1, 0, 9.0), (0.0, MOE, 1, 0, 9.0)]
    )
    apart, beside = Clusters(TINY, jobs), Clusters(TINY, jobs)
    act(apart, 0, 2, 1)
    act(beside, 0, 3, 1)

    assert speeds(apart)[1] == pytest.approx(alone(TINY, MOE, 1, 0, 1))
    assert speeds(beside)[1] < speeds(apart)[1]
    assert speeds(apart)[0] == pytest.approx(alone(TINY, FSDP, 1, 1, 1))


def test_a_job_without_room_waits_and_the_next_one_is_tried() -> None:
    """Three of 4 GPUs are taken: 2 workers wait, 1 does not."""
    jobs = [(0.0, MOBILE, 2, 0, 2.0), (0.0, MOBILE, 1, 0, 9.0), (0.0, MOBILE, 2, 0, 2.0)]
    clusters = Clusters(TINY, job_sequence(TINY, [*jobs, (0.0, GRAPH, 1, 0, 1.0)]))
    act(clusters, 0, 0, 1)

    assert clusters.state.current.tolist() == [3]
    act(clusters, 1)
    assert clusters.state.current.tolist() == [2]
    assert clusters.state.interval.tolist() == [1]
    act(clusters, 0, 0)
    assert clusters.state.placed_in[0].tolist() == [0, 0, 1, 0]


def test_a_task_is_not_put_where_the_rest_finds_no_room() -> None:
    """One GPU is free on each server, and one server has no cores left for the second worker."""
    config = replace(TINY, cores=4)
    jobs = [(0.0, MOBILE, 1, 1, 9.0), (0.0, MOBILE, 2, 0, 9.0), (0.0, FSDP, 1, 0, 9.0)]
    clusters = Clusters(config, job_sequence(config, jobs))
    act(clusters, 0, 2)
    # 3 of 4 cores are taken by a worker, 1 by a parameter server: nothing of job 1 fits beside.
    assert clusters.state.current.tolist() == [2]
    with pytest.raises(StudyError, match="no such task is left, or there is no room"):
        act(clusters, 0)


def test_the_analytic_model_knows_cores_and_network() -> None:
    """Two jobs want 10 of 8 cores; spread over both servers they send through the network."""
    config = replace(TINY, speed="analytic")
    jobs = [(0.0, MOBILE, 1, 0, 9.0), (0.0, MOBILE, 1, 0, 9.0), (0.0, GRAPH, 1, 0, 9.0)]
    clusters = Clusters(config, job_sequence(config, jobs))
    act(clusters, 0)
    before = speeds(clusters)[0]
    act(clusters, 0)
    share = measured().traffic_gbps[measured().models.index(MOBILE)] / 100
    assert before == pytest.approx(alone(config, MOBILE, 1, 0, 1))
    assert speeds(clusters)[0] == pytest.approx(before / ((1 - share) / (8 / 10) + share))

    spread = Clusters(config, job_sequence(config, [(0.0, MOBILE, 2, 0, 9.0), jobs[2]]))
    act(spread, 0, 1)
    there = alone(config, MOBILE, 2, 0, 1)
    assert speeds(spread)[0] == pytest.approx(there / (1 - share + 2 * share))


def test_predicted_speeds_take_the_place_of_the_clusters_own() -> None:
    """An epoch a minute for all: 6 epochs take 6 minutes, wherever the job is."""
    jobs = job_sequence(TINY, [(0.0, FSDP, 2, 0, 6.0), (0.0, MOE, 2, 0, 30.0)])

    def predictor(clusters: Clusters, rows: Int32) -> Float64:
        return np.ones((len(rows), clusters.state.running.shape[1]))

    clusters = Clusters(TINY, jobs, predictor=predictor, discount=0.5)
    assert act(clusters, 0, 1, 0, 1) == pytest.approx(1 + 20 / 30 + 0.5 * 10 / 30)
    assert clusters.state.end_min[0].tolist() == pytest.approx([6.0, 30.0])


# --- under any placement -------------------------------------------------------------------------


@given(tiny_configs, st.integers(0, 2**32))
@settings(max_examples=60)
def test_units_are_conserved_and_no_job_is_lost(config: Config, seed: int) -> None:
    """At each choice; in the end all jobs are complete, and rewards sum to their number."""
    jobs = draw_jobs(config, 2, seed, Purpose.TEST)
    clusters = Clusters(config, jobs, seed=seed)
    rng = np.random.default_rng(seed)
    earned = np.zeros(2)
    state, types_ = clusters.state, clusters.types
    # What passes before the first choice earns nothing: no job runs.
    while len(rows := clusters.under_way()) > 0:
        for e in rows:
            demand = types_.demand[jobs.model[e]]
            used = np.einsum("jmi,jik->mk", state.placed[e].astype(int), demand)
            assert (state.free[e] >= 0).all()
            assert (state.free[e] + used == np.array(config.capacity)).all()
            # No server of an exclusive job ever has a task of another.
            there = state.placed[e].sum(axis=2) > 0
            assert (state.tasks[e] == state.placed[e].sum(axis=(0, 2))).all()
            for job in np.nonzero(jobs.exclusive[e])[0]:
                assert (there[:, there[job]].sum(axis=0) <= 1).all()
        earned[rows] += clusters.step(rows, random_actions(clusters, rows, rng)).reward
    assert state.finished.tolist() == [config.jobs] * 2
    assert earned == pytest.approx([config.jobs] * 2)
    assert (state.end_min > jobs.arrival_min).all()
    assert (state.free == np.array(config.capacity)).all()
    assert (state.owner == NONE).all()
    np.testing.assert_allclose(state.done, jobs.epochs)


def test_noise_is_around_one_and_changes_with_the_seed() -> None:
    """The mean of its logarithm is 0, its deviation what was asked for."""
    config = replace(TINY, noise=0.3)
    jobs = job_sequence(config, [(0.0, MOBILE, 1, 0, 9.0), (0.0, MOBILE, 1, 0, 9.0)])
    clusters = Clusters(config, jobs, np.zeros(4_000, np.int32), seed=5)
    rows = clusters.under_way()
    clusters.step(rows, np.zeros(len(rows), np.int32))

    log_noise = np.log(measure(clusters, rows).speed[:, 0] / alone(config, MOBILE, 1, 0, 1))
    assert log_noise.mean() == pytest.approx(0.0, abs=0.02)
    assert log_noise.std() == pytest.approx(0.3, abs=0.02)


# --- arrivals ------------------------------------------------------------------------------------


def test_uniform_arrivals_are_the_same_number_in_each_20_minutes() -> None:
    """3 of them; at 2.5, in turns 3 and 2."""
    times = draw_jobs(PAPER, 4, 1, Purpose.TEST).arrival_min
    assert all(np.bincount((row // 20).astype(int)).tolist() == [3] * 20 for row in times)
    other = draw_jobs(replace(PAPER, jobs_per_20_min=2.5), 1, 1, Purpose.TEST).arrival_min[0]
    assert np.bincount((other // 20).astype(int)).tolist()[:4] == [3, 2, 3, 2]


@pytest.mark.parametrize("arrivals", ["poisson", "trace"])
def test_other_arrivals_have_their_mean_rate(arrivals: Any) -> None:
    """2 in 20 minutes; those of the trace come in bursts. A larger cluster keeps the ratio."""
    assert LARGE.arriving(arrivals).jobs_per_20_min == pytest.approx(4 * 2 / 3)
    config = PAPER.arriving(arrivals)
    times = draw_jobs(replace(config, jobs=200), 100, 1, Purpose.TEST).arrival_min
    assert config.jobs_per_20_min == 2.0
    assert 20 * 200 / times[:, -1].mean() == pytest.approx(2.0, rel=0.1)
    counts = np.concatenate([np.bincount((row // 20).astype(int)) for row in times])
    ratio = counts.var() / counts.mean()
    assert ratio == pytest.approx(1.0, abs=0.15) if arrivals == "poisson" else ratio > 2.0


def test_a_trace_of_ones_own(tmp_path: Path) -> None:
    """Its distances in their order, from a random one on, at the rate that is asked for."""
    path = tmp_path / "times.json"
    path.write_text('{"arrivals": [1, 2, 4, 8]}')
    config = replace(PAPER.arriving("trace"), arrivals_file=str(path), jobs=40)
    times = draw_jobs(config, 1, 3, Purpose.TEST).arrival_min[0]
    gaps = np.diff(times) / np.diff(times).min()
    assert sorted({round(gap, 6) for gap in gaps.tolist()}) == [1.0, 2.0, 4.0]
    assert times[-1] / 40 == pytest.approx(10.0)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{}", "a list `arrivals`"),
        ('{"arrivals": [1]}', "2 or more"),
        ('{"arrivals": [1, "x"]}', "is 'x': no finite number"),
        ('{"arrivals": [1, 1' + "0" * 400 + "]}", "no finite number"),
        ('{"arrivals": [1, 1e999]}', "is inf: no finite number"),
        ('{"arrivals": [2, 1]}', "must not fall"),
        ('{"arrivals": [2, NaN]}', "NaN is not a number in JSON"),
        ('{"arrivals": [1, 1e300]}', r"is 1e\+300: 1e-15 to 1e\+15"),
        ("nothing", "not JSON"),
    ],
)
def test_a_bad_trace_is_refused(tmp_path: Path, text: str, words: str) -> None:
    """In one line, with the file."""
    path = tmp_path / "times.json"
    path.write_text(text)
    with pytest.raises(StudyError, match=words) as caught:
        read_arrivals(str(path))
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("job", "words"),
    [
        ((-1.0, MOBILE, 1, 0, 1.0), "arrives at"),
        ((0.0, "GPT", 1, 0, 1.0), "is a 'GPT'"),
        ((0.0, MOBILE, 3, 0, 1.0), "has 3 workers"),
        ((0.0, MOBILE, 1, 0, 0.0), r"trains 0\.0 epochs"),
        ((0.0, MOBILE, 1, 0, math.nan), "trains nan epochs"),
        ((1e300, MOBILE, 1, 0, 1.0), r"arrives at 1e\+300"),
    ],
)
def test_an_impossible_job_is_refused(job: Any, words: str) -> None:
    with pytest.raises(StudyError, match=f"job 0 {words}"):
        job_sequence(TINY, [job])
    with pytest.raises(StudyError, match="without jobs"):
        job_sequence(TINY, [])


def test_a_job_larger_than_the_cluster_is_refused() -> None:
    config = replace(TINY, servers=1, cores=3)
    with pytest.raises(StudyError, match="job 0 has more tasks than an empty cluster"):
        Clusters(config, job_sequence(config, [(0.0, MOBILE, 2, 0, 1.0)]))
