"""`Scene`: inputs of networks for many clusters, padded to one shape.

Letters: n observations, N rows of jobs, M servers, F and H numbers of a row.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from harmony import token_kernels
from harmony.clusters import Clusters
from harmony.config import Config
from harmony.tables import Bool, Float32, Int32
from harmony.token_kernels import JOB_COLUMNS, SERVER_COLUMNS, WAITING_ROWS


class Scene(NamedTuple):
    """Observation of a policy, without speeds and numbers of epochs."""

    job: Float32
    """(n, N, F) the present job, then those that run, then some that wait"""
    is_job: Bool
    """(n, N) which rows are jobs; the others are 0"""
    beside: Bool
    """(n, N, N) which jobs share a server; a job does so with itself"""
    server: Float32
    """(n, M, H)"""
    holds: Bool
    """(n, M, N) which jobs have a task on a server; True for the present job"""
    allowed: Bool
    """(n, 2 M) actions"""

    def rows(self, chosen: Int32) -> Scene:
        """Return some of the observations."""
        return Scene._make(column[chosen] for column in self)

    def trimmed(self) -> Scene:
        """Return the observations without rows that are empty in all of them."""
        most = int(self.is_job.sum(axis=1).max())
        return self._replace(
            job=self.job[:, :most],
            is_job=self.is_job[:, :most],
            beside=self.beside[:, :most, :most],
            holds=self.holds[:, :, :most],
        )


class Running(NamedTuple):
    """The jobs that run in n clusters, as the models of interference see them."""

    job: Float32
    """(n, N, F)"""
    is_job: Bool
    """(n, N)"""
    beside: Bool
    """(n, N, N)"""
    shape: Int32
    """(n, N, 4) type, workers, parameter servers, servers; 0 where there is no job"""

    def rows(self, chosen: Int32) -> Running:
        """Return some of the clusters."""
        return Running._make(column[chosen] for column in self)


def job_columns(models: int, gpu_types: int = 1) -> int:
    """F, where there are so many types of jobs and of GPUs."""
    return models + JOB_COLUMNS + _gpu_columns(gpu_types)


def server_columns(gpu_types: int = 1) -> int:
    """H, where there are so many types of GPUs."""
    return SERVER_COLUMNS + _gpu_columns(gpu_types)


def _gpu_columns(gpu_types: int) -> int:
    """Columns of the type of GPU and its speed, which only clusters of several types need."""
    return gpu_types + 1 if gpu_types > 1 else 0


def see(clusters: Clusters, rows: Int32, most: int | None = None) -> Scene:
    """Return the observations of the episodes `rows`, each with a job to place.

    Args:
        clusters: the episodes.
        rows: (n,) their numbers.
        most: N; None: as many as are needed.
    """
    state, count, servers = clusters.state, len(rows), clusters.config.servers
    if most is None:
        waiting = np.minimum(state.waiting_count[rows] - 1, WAITING_ROWS)
        most = int((1 + state.running_count[rows] + waiting).max())
    scene = Scene(
        np.zeros((count, most, _columns_of(clusters)), np.float32),
        np.zeros((count, most), np.bool_),
        np.zeros((count, most, most), np.bool_),
        np.zeros((count, servers, server_columns(len(clusters.types.gpu_speed))), np.float32),
        np.zeros((count, servers, most), np.bool_),
        clusters.masks(rows),
    )
    token_kernels.read_choices(
        *clusters.world,
        rows,
        scene.allowed,
        scene.job,
        scene.is_job,
        scene.beside,
        scene.server,
        scene.holds,
    )
    return scene


def _columns_of(clusters: Clusters) -> int:
    """F of such clusters."""
    return job_columns(len(clusters.types.demand), len(clusters.types.gpu_speed))


def most_rows(config: Config) -> int:
    """N that suffices for any state of such a cluster."""
    return 1 + config.most_running + WAITING_ROWS


def see_running(clusters: Clusters, rows: Int32, most: int) -> Running:
    """The jobs that run in the episodes `rows`, of which none has more than `most`."""
    count = len(rows)
    running = Running(
        np.zeros((count, most, _columns_of(clusters)), np.float32),
        np.zeros((count, most), np.bool_),
        np.zeros((count, most, most), np.bool_),
        np.zeros((count, most, 4), np.int32),
    )
    token_kernels.read_running(*clusters.world, rows, *running)
    return running
