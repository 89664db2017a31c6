"""Harmony as Gymnasium environment, and what networks are told."""

from __future__ import annotations

import numpy as np
import pytest

from decima.rl.study.streams import Purpose
from harmony.clusters import Clusters
from harmony.config import PAPER
from harmony.env import HarmonyEnv
from harmony.jobs import draw_jobs, job_sequence
from harmony.measured import measured
from harmony.tables import K
from harmony.tokens import most_rows, see
from tests.harmony_clusters import ONLY, TINY, act
from tests.studies import episode

JOBS = [
    (0.0, "FSDP", 1, 1, 9.0),
    (0.0, "MoE", 2, 0, 9.0),
    (0.0, "DLRM", 1, 0, 9.0),
    (0.0, "DLRM", 1, 0, 9.0),
]


def test_rewards_sum_to_the_number_of_jobs() -> None:
    """Each trains all its epochs once; one seed gives one episode."""
    rewards, info = episode(HarmonyEnv(TINY), 4)
    assert sum(rewards) == pytest.approx(TINY.jobs)
    assert info["completion"] > 0.0
    assert episode(HarmonyEnv(TINY), 4)[0] == rewards


def test_an_action_without_room_is_replaced_by_one_that_has() -> None:
    """An all-reduce job has no parameter server to place."""
    env = HarmonyEnv(TINY)
    env.reset(options={"jobs": job_sequence(TINY, JOBS[1:])})
    *_, info = env.step(np.int64(3))
    assert info["replaced"]
    assert env.action_masks().tolist() == [True, True, False, False]


# --- scenes --------------------------------------------------------------------------------------


def test_a_scene_says_who_is_where_and_no_speed() -> None:
    """FSDP runs on both servers, one MoE worker is placed on the second; two DLRM wait."""
    clusters = Clusters(TINY, job_sequence(TINY, JOBS))
    act(clusters, 0, 3, 1)
    scene = see(clusters, ONLY)
    models = len(measured().models)

    assert scene.job[0, :, :models].argmax(axis=1).tolist() == [5, 2, 4, 4]
    assert scene.job[0, :, -3:].argmax(axis=1).tolist() == [1, 0, 2, 2]
    assert scene.is_job[0].tolist() == [True] * 4
    assert scene.beside[0, :2, :2].tolist() == [[True, True], [True, True]]
    assert scene.holds[0].tolist() == [[True, True, False, False]] * 2
    assert scene.allowed[0].tolist() == [True, True, False, False]
    free = clusters.state.free[0] / np.array(TINY.capacity)
    np.testing.assert_allclose(scene.server[0, :, :K], free, rtol=1e-6)
    # tasks of the present job by kind, then of all
    assert scene.server[0, :, K : K + 2].tolist() == [[0.0, 0.0], [0.5, 0.0]]
    np.testing.assert_allclose(scene.server[0, :, K + 2 : K + 4], [[0.25, 0], [0.25, 0.25]])
    np.testing.assert_allclose(scene.server[0, :, K + 4 :], [[1, 0], [1, 0]])


def test_epochs_and_noise_change_nothing_that_is_seen() -> None:
    """They are hidden; so is how far a job has come."""
    longer = [(*job[:4], 3 * job[4]) for job in JOBS]
    scenes = []
    for jobs in (JOBS, longer):
        clusters = Clusters(TINY, job_sequence(TINY, jobs))
        act(clusters, 0, 3, 1)
        scenes.append(see(clusters, ONLY))
    assert all((values == other).all() for values, other in zip(*scenes, strict=True))


def test_a_scene_fits_into_the_rows_there_are() -> None:
    """Of any state: padding is 0, and trimming takes it away again."""
    jobs = draw_jobs(PAPER, 8, 3, Purpose.TEST)
    clusters = Clusters(PAPER, jobs)
    for _ in range(60):
        rows = clusters.under_way()
        first = clusters.masks(rows).argmax(axis=1).astype(np.int32)
        clusters.step(rows, first)
    rows = clusters.under_way()
    wide, narrow = see(clusters, rows, most_rows(PAPER)), see(clusters, rows)
    assert all(
        (values == other).all() for values, other in zip(wide.trimmed(), narrow, strict=True)
    )
    assert (wide.job[~wide.is_job] == 0).all()
