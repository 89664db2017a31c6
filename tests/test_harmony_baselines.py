"""Harmony's heuristics, models of interference and the exact bound, on instances solved by hand."""

from __future__ import annotations

import numpy as np
import pytest

from decima.rl.errors import StudyError
from decima.rl.study.streams import Draws, Purpose
from harmony.clusters import Clusters
from harmony.config import PAPER, Config
from harmony.evaluation import baselines
from harmony.interference import (
    LINEAR,
    QUADRATIC,
    Samples,
    draw_samples,
    fit_lif,
    fit_pairs,
    predict_lif,
    relative_error,
)
from harmony.jobs import draw_jobs, job_sequence
from harmony.measured import types_of
from harmony.schedulers import (
    InOrder,
    LeastInterference,
    LoadBalance,
    Lookahead,
    RandomChoice,
    Scheduler,
    Tetris,
    Tiresias,
)
from harmony.tables import Jobs
from tests.harmony_clusters import ONLY, TINY

FSDP, MOE, GRAPH, MOBILE, XL = "FSDP", "MoE", "GraphSage", "MobileNetV3", "Transformer-XL"
PAPERS = ("lb", "tetris", "tiresias", "lif_linear", "lif_quad")
"""the paper's baselines"""
NAMES = (*PAPERS, "tiresias_las", "lookahead", "lookahead_gittins")


@pytest.fixture(scope="module")
def samples() -> Samples:
    return draw_samples(PAPER, 1_500, 3)


@pytest.fixture(scope="module")
def schedulers(samples: Samples) -> dict[str, Scheduler]:
    return {**baselines(PAPER, samples), "random": RandomChoice()}


def placements(scheduler: Scheduler, config: Config, jobs: Jobs) -> list[list[int]]:
    """Tasks of each job on each server, while all run."""
    clusters = Clusters(config, jobs, priority=scheduler.priority(jobs))
    draws = Draws(1, 1)
    servers: dict[int, list[int]] = {}
    while len(rows := clusters.under_way()) > 0:
        job = int(clusters.state.current[0])
        before = clusters.state.placed[0, job].sum(axis=1)
        action = scheduler.choose(clusters, rows, draws)
        before[action[0] % config.servers] += 1
        servers[job] = before.tolist()
        clusters.step(rows, action)
    return [servers[job] for job in sorted(servers)]


LIF_ON_NETWORKS = LeastInterference(np.tile([0.0, 0.0, 1.0, 0.0, 0.0, 0.0], (6, 1)))
"""by weights that say that networks matter and cores do not"""


@pytest.mark.parametrize(
    ("scheduler", "jobs", "expected"),
    [
        # Cores and GPUs: 3 of 8 and 1 of 2 on the first, so the second; then 1 of 8 and 1 of 2.
        (LoadBalance(), [(MOBILE, 1), (FSDP, 1), (MOE, 1)], [[1, 0], [0, 1], [0, 1]]),
        # Two jobs share the first server, the third has to go on.
        (Tetris(), [(MOBILE, 1)] * 3, [[1, 0], [1, 0], [0, 1]]),
        # A server has one GPU left: a skewed model goes to the other, whole.
        (Tiresias(TINY, "las"), [(MOBILE, 1), (XL, 2)], [[1, 0], [0, 2]]),
        (Tiresias(TINY, "las"), [(MOBILE, 1), (FSDP, 2)], [[1, 0], [1, 1]]),
        (Tiresias(TINY, "las", threshold=0.0), [(MOBILE, 1), (FSDP, 2)], [[1, 0], [0, 2]]),
        # Beside the job that sends less.
        (LIF_ON_NETWORKS, [(FSDP, 1), (MOBILE, 1), (MOE, 1)], [[1, 0], [0, 1], [0, 1]]),
        # FSDP and MoE slow each other to half; GraphSage hardly touches either.
        (Lookahead(None, 0.0), [(FSDP, 1), (GRAPH, 1), (MOE, 1)], [[1, 0], [0, 1], [0, 1]]),
    ],
)  # fmt: skip
def test_a_heuristic_places_by_its_rule(
    scheduler: Scheduler, jobs: list[tuple[str, int]], expected: list[list[int]]
) -> None:
    sequence = job_sequence(TINY, [(0.0, model, workers, 0, 9.0) for model, workers in jobs])
    assert placements(scheduler, TINY, sequence) == expected


def test_the_gittins_index_prefers_jobs_of_fewer_gpus() -> None:
    """Their service, GPUs times minutes, is less; least attained service knows no difference."""
    jobs = job_sequence(PAPER, [(0.0, MOBILE, 3, 0, 9.0), (0.0, MOBILE, 1, 0, 9.0)])
    order = Tiresias(PAPER).priority(jobs)
    assert order is not None
    assert order[0, 1] < order[0, 0]
    assert Tiresias(PAPER, "las").priority(jobs) is None
    with pytest.raises(StudyError, match="gittins or las"):
        Tiresias(PAPER, "srtf")


def test_a_baseline_can_serve_jobs_in_the_gittins_order() -> None:
    """The job of one GPU goes first and takes the server that the other would have had."""
    jobs = job_sequence(PAPER, [(0.0, MOBILE, 3, 0, 9.0), (0.0, MOBILE, 1, 0, 9.0)])
    ordered = InOrder(LoadBalance(), Tiresias(PAPER))
    for scheduler, first in ((LoadBalance(), 0), (ordered, 1)):
        clusters = Clusters(PAPER, jobs, priority=scheduler.priority(jobs))
        assert clusters.state.current[0] == first
        chosen = scheduler.choose(clusters, ONLY, Draws(0, 1))
        assert chosen == LoadBalance().choose(clusters, ONLY, Draws(0, 1))


def test_every_baseline_is_there_in_both_queue_orders() -> None:
    """Half of them in the order of arrival, half in that of one Gittins index."""
    jobs = draw_jobs(TINY, 2, 0, Purpose.TEST)
    policies = baselines(TINY, draw_samples(TINY, 50, 0))
    by_arrival = {name for name, policy in policies.items() if policy.priority(jobs) is None}
    ordered = {name.removesuffix("_gittins") for name in policies.keys() - by_arrival}
    assert {name.removesuffix("_las") for name in by_arrival} == ordered
    assert set(PAPERS) < ordered
    index = Tiresias(TINY).priority(jobs)
    assert index is not None
    for name in policies.keys() - by_arrival:
        np.testing.assert_array_equal(policies[name].priority(jobs), index)


# --- models of interference ----------------------------------------------------------------------


def test_samples_hold_the_speeds_of_their_placements(samples: Samples) -> None:
    """Alone as measured; never faster than alone but where a pair was measured so."""
    alone = samples.running.is_job & (samples.running.beside.sum(axis=2) == 1)
    np.testing.assert_allclose(samples.speed[alone], samples.alone[alone])
    assert len(samples.speed) == 1_500
    there = samples.running.is_job
    assert (samples.speed[there] <= samples.alone[there] * (1 + 1e-12)).all()
    assert (samples.speed[~there] == 0).all()
    with pytest.raises(StudyError, match="0 samples"):
        draw_samples(PAPER, 0, 1)


def test_lif_finds_the_weights_that_made_the_samples(samples: Samples) -> None:
    """Both forms, exactly, where speeds are what the form says."""
    for terms in (LINEAR, QUADRATIC):
        true = np.zeros((6, 6))
        true[:, :terms] = np.random.default_rng(1).uniform(0.01, 0.1, (6, terms))
        made = samples._replace(speed=predict_lif(samples, true))
        np.testing.assert_allclose(fit_lif(made, terms), true, atol=1e-9)
        assert relative_error(predict_lif(made, fit_lif(made, terms)), made).max() < 1e-9


def test_a_table_of_pairs_finds_ratios_of_types() -> None:
    """Where each pair of types has one ratio, from samples in which they are multiplied."""
    types = types_of(PAPER)
    samples = draw_samples(PAPER, 3_000, 4)
    true = np.random.default_rng(1).uniform(0.5, 1.0, (6, 6))
    model = samples.running.shape[..., 0]
    near = samples.running.beside & ~np.eye(model.shape[1], dtype=bool)
    pairs = np.log(true)[model[:, :, None], model[:, None, :]] * near
    made = samples._replace(speed=samples.alone * np.exp(pairs.sum(axis=2)))
    np.testing.assert_allclose(fit_pairs(PAPER, made).ratio, true, rtol=1e-3)
    assert fit_pairs(PAPER, made).alone is types.alone
