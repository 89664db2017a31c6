"""Models of interference by least squares on samples: LIF's, and a table of pairs.

Letters: n samples, N jobs of one, L types.
"""

from __future__ import annotations

import numpy as np

from harmony.config import Config
from harmony.measured import measured, types_of
from harmony.samples import Samples
from harmony.schedulers import FORM
from harmony.tables import Float64, Types
from harmony.tokens import job_columns

LINEAR, QUADRATIC = 3, FORM
"""weights that are fitted: of 1, cores and network; and of their three products too"""
_RIDGE = 1e-3


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
        own = model == number
        if own.any():
            weights[number, :terms] = np.linalg.lstsq(table[own], lost[own], rcond=None)[0]
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
    kept = np.log(samples.speed[running.is_job] / samples.alone[running.is_job])
    model = running.shape[running.is_job][:, 0]
    ratio = np.ones((models, models))
    for number in range(models):
        own = model == number
        table = counts[own]
        square = table.T @ table + _RIDGE * np.eye(models)
        ratio[number] = np.exp(np.linalg.solve(square, table.T @ kept[own]))
    true = types_of(config)
    by_type = np.broadcast_to(
        np.arange(models, dtype=np.int32)[:, None, None, None], true.alone.shape
    )
    return true._replace(ratio=ratio, measured_as=np.ascontiguousarray(by_type))


def relative_error(predicted: Float64, samples: Samples, model: int | None = None) -> Float64:
    """(m,) of each job of the samples, or of each of one type: |predicted - speed| / speed."""
    chosen = samples.running.is_job
    if model is not None:
        chosen = chosen & (samples.running.shape[..., 0] == model)
    speed = samples.speed[chosen]
    return np.asarray(np.abs(predicted[chosen] - speed) / speed)
