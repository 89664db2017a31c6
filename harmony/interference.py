"""Speeds measured in clusters under mixed placements, and models of interference fitted to them.

The models are LIF's and a table of pairs, both by least squares.

Letters: n samples, N jobs of one, L types.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np

from decima.rl.errors import StudyError
from decima.rl.study.lockstep import joined
from decima.rl.study.streams import Draws, Purpose
from harmony import token_kernels
from harmony.clusters import Clusters
from harmony.config import Config
from harmony.jobs import draw_jobs
from harmony.measured import measured, types_of
from harmony.schedulers import FORM, LoadBalance, Mixed, RandomChoice, Tetris, Tiresias
from harmony.tables import Float64, Int32, Types
from harmony.tokens import Running, job_columns, see_running

LINEAR, QUADRATIC = 3, FORM
"""weights that are fitted: of 1, cores and network; and of their three products too"""
_RIDGE = 1e-3
_AT_ONCE = 64
"""sequences that are played in lockstep"""
_CHANCE = 0.5
"""of a state to be measured, so that neighbours in time are not all alike"""
SEED = 2019
"""of the samples that baselines are fitted to, and of the figures' sequences"""
SAMPLES = 10_000
"""states of these"""


class Samples(NamedTuple):
    """n states of clusters, with the speed of each of up to N jobs."""

    running: Running
    speed: Float64
    """(n, N) epochs a minute; 0 where there is no job"""
    alone: Float64
    """(n, N) epochs a minute of such a job without neighbours, on as many servers"""
    others: Float64
    """(n, N, 2) largest shares of cores and of network that others ask for on a server of it"""

    def rows(self, chosen: Int32) -> Samples:
        """Return the samples of some states."""
        rest = (column[chosen] for column in self[1:])
        return Samples(self.running.rows(chosen), *rest)


def draw_samples(config: Config, count: int, seed: int) -> Samples:
    """Draw states with at least one job each, met while jobs are placed by various rules.

    Each choice is that of a baseline, picked at random: least loaded, best fit, consolidating, or
    any server.

    Raises StudyError if less than 1 is asked for.
    """
    if count < 1:
        raise StudyError(f"{count} samples: at least 1 is needed")
    mixed = Mixed((LoadBalance(), Tetris(), Tiresias(config, "las"), RandomChoice()))
    parts: list[Samples] = []
    drawn = 0
    for number in range(count):
        if drawn >= count:
            break
        jobs = draw_jobs(config, _AT_ONCE, seed, Purpose.TUNING, number * _AT_ONCE)
        clusters, draws = Clusters(config, jobs, seed=seed + number), Draws(seed, _AT_ONCE, number)
        state, rows = clusters.state, clusters.under_way()
        while len(rows) > 0:
            # States with a job that runs, at choices for a job of which no task is placed yet.
            whole = state.spread[rows, state.current[rows]] == 0
            chosen = whole & (state.running_count[rows] > 0) & (draws.next(rows) < _CHANCE)
            if chosen.any():
                parts.append(measure(clusters, rows[chosen]))
            rows = rows[~clusters.step(rows, mixed.choose(clusters, rows, draws)).over]
        drawn = sum(len(part.speed) for part in parts)
    order = np.random.default_rng(seed).permutation(drawn)[:count].astype(np.int32)
    return joined(parts).rows(order)


_draw_once = cache(draw_samples)


def measure(clusters: Clusters, rows: Int32) -> Samples:
    """The jobs that run in the episodes `rows`, and their speeds at this moment."""
    most = clusters.config.most_running
    shape = (len(rows), most)
    samples = Samples(
        see_running(clusters, rows, most), np.zeros(shape), np.zeros(shape), np.zeros((*shape, 2))
    )
    token_kernels.measure(*clusters.world, rows, *samples[1:])
    return samples


def samples_of(config: Config, seed: int = SEED) -> Samples:
    """States of a cluster at the default interval and rate, that baselines are fitted to."""
    return _draw_once(replace(config.arriving("uniform"), interval_min=20.0), SAMPLES, seed)


def fit_lif(samples: Samples, terms: int, gpu_types: int = 1) -> Float64:
    r"""(L, 6) weights of LIF-Linear or LIF-Quad, by least squares for each model.

    .. math:: 1 - v / v_{alone} \approx w_0 + w_1 c + w_2 b + w_3 c^2 + w_4 c b + w_5 b^2

    with the shares c and b of a server's cores and network that other jobs have asked for. A job
    without neighbours loses nothing, and is no sample. Source: Harmony, section VI-B.

    Args:
        samples: of a cluster.
        terms: LINEAR or QUADRATIC.
        gpu_types: of the cluster.
    """
    has_others = samples.running.is_job & (samples.others.sum(axis=2) > 0.0)
    lost = 1.0 - samples.speed[has_others] / samples.alone[has_others]
    table = terms_of(samples.others[has_others])[:, :terms]
    model = samples.running.shape[has_others][:, 0]
    weights = np.zeros((samples.running.job.shape[2] - job_columns(0, gpu_types), FORM))
    for number in range(len(weights)):
        of_model = model == number
        if of_model.any():
            weights[number, :terms] = np.linalg.lstsq(table[of_model], lost[of_model], rcond=None)[
                0
            ]
    return weights


def predict_lif(samples: Samples, weights: Float64) -> Float64:
    """(n, N) epochs a minute by LIF, at least a hundredth of the speed alone."""
    lost = (terms_of(samples.others) * weights[samples.running.shape[..., 0]]).sum(axis=-1)
    lost = np.where(samples.others.sum(axis=-1) > 0.0, lost, 0.0)
    return np.asarray(samples.alone * np.clip(1.0 - lost, 0.01, None))


def terms_of(others: Float64) -> Float64:
    """(..., 6) what `rule_kernels.drop` weighs, of (..., 2) shares."""
    cores, network = others[..., 0], others[..., 1]
    ones = np.ones_like(cores)
    return np.stack([ones, cores, network, cores**2, cores * network, network**2], axis=-1)


def fit_pairs(config: Config, samples: Samples) -> Types:
    r"""Fit a table of pairs that predicts speeds for `Lookahead`.

    .. math:: \log (v / v_{alone}) \approx \sum_j \log q_{x, x_j}

    over the neighbours j, with one ratio for each pair of types; by least squares for each type.
    Speeds alone are those of profiling, as LIF's are.
    """
    running = samples.running
    models = len(measured(config.table_file).models)
    one_hot = np.eye(models)[running.shape[..., 0]] * running.is_job[..., None]
    neighbours = running.beside & ~np.eye(running.beside.shape[1], dtype=bool)
    counts = (neighbours.astype(float) @ one_hot)[running.is_job]
    log_share = np.log(samples.speed[running.is_job] / samples.alone[running.is_job])
    model = running.shape[running.is_job][:, 0]
    ratio = np.ones((models, models))
    for number in range(models):
        rows = model == number
        table = counts[rows]
        square = table.T @ table + _RIDGE * np.eye(models)
        ratio[number] = np.exp(np.linalg.solve(square, table.T @ log_share[rows]))
    true = types_of(config)
    by_type = np.broadcast_to(
        np.arange(models, dtype=np.int32)[:, None, None, None], true.alone.shape
    )
    return true._replace(ratio=ratio, measured_as=np.ascontiguousarray(by_type))


def relative_error(predicted: Float64, samples: Samples) -> Float64:
    """(m,) of each job of the samples: |predicted - speed| / speed."""
    speed = samples.speed[samples.running.is_job]
    return np.asarray(np.abs(predicted[samples.running.is_job] - speed) / speed)
