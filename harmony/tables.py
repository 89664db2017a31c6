"""The state of many clusters as plain arrays that kernels change in place.

Letters: S job sequences, E clusters (each plays one sequence), J the most jobs of a sequence,
M servers, K resources, L types of job, R the most jobs that can run at once, C measured
configurations of a job, W and P the most workers and parameter servers, N the most servers of one,
G types of GPU.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Int8 = NDArray[np.int8]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
UInt64 = NDArray[np.uint64]
Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
Bool = NDArray[np.bool_]

NONE = -1
"""no job to place, no interval in which a job was placed"""

WORKER, PS = range(2)
"""kinds of task; action `kind * M + m` puts one of the kind on server m"""

GPU, CPU, MEMORY, NETWORK = range(4)
"""resources: GPUs, cores, GB, Gbit/s"""
K = 4

# How fast jobs are (`harmony.config.Config.speed` and `several`).
MEASURED_WORST, MEASURED_PRODUCT, ANALYTIC, GIVEN = range(4)
"""GIVEN: the caller writes speeds before each interval, in which they then do not change"""


class Jobs(NamedTuple):
    """S sequences, padded to J jobs; those of one are in the order of arrival, from row 0."""

    number: Int32
    """(S,) jobs of the sequence, at least 1"""
    arrival_min: Float64
    """(S, J) minutes since the start; 0 beyond `number`"""
    model: Int32
    """(S, J) type of the job"""
    workers: Int32
    """(S, J) at least 1"""
    ps: Int32
    """(S, J) parameter servers; 0 for all-reduce"""
    epochs: Float64
    """(S, J) to train; 1 beyond `number`"""
    exclusive: Bool
    """(S, J) whether the job shares no server with another"""
    gpu: Int32
    """(S, J) type of GPU that its workers need, or NONE"""


class Types(NamedTuple):
    """Properties of types of jobs and of GPUs; speeds of jobs are hidden from schedulers."""

    demand: Int32
    """(L, 2, K) of one worker and of one parameter server"""
    alone: Float64
    """(L, W+1, P+1, N+1) epochs a minute without neighbours, on so many servers"""
    measured_as: Int32
    """(L, W+1, P+1, N+1) the measured configuration that such a job is nearest to"""
    ratio: Float64
    """(C, C) speed of the row's job beside the column's, over its speed alone"""
    cpu_use: Float64
    """(L, 2) cores that a task keeps busy: the analytic model's"""
    traffic_gbps: Float64
    """(L, 2) that a task of a job on several servers sends: the analytic model's"""
    send_share: Float64
    """(L,) of the time of a step on one server that is sending: the analytic model's"""
    gpu_speed: Float64
    """(G,) factor on the speed of a job whose slowest worker has such a GPU; not hidden"""


class Rules(NamedTuple):
    """Parts of the configuration that kernels need."""

    interval_min: float
    max_intervals: int
    """an episode is cut then"""
    speed: int
    """MEASURED_WORST, MEASURED_PRODUCT, ANALYTIC or GIVEN"""
    noise: float
    """standard deviation of the logarithm of speeds, drawn for each job and interval"""
    discount: float
    """of rewards, for each interval that passes"""
    capacity: Int32
    """(K,) of each server"""


class Rule(NamedTuple):
    """A heuristic, and what it goes by."""

    number: int
    """of `rule_kernels`"""
    weights: Float64
    """(L, 6) of what neighbours cost"""
    believed: Types
    """speeds that a lookahead expects"""
    together: Bool
    """(L,) types whose tasks are put on as few servers as they can be"""
    empty_worth: float
    """of a server without any job, to a lookahead"""


class State(NamedTuple):
    """E clusters."""

    jobs_of: Int32
    """(E,) row of the sequence"""
    key: UInt64
    """(E,) of the cluster's own random numbers"""
    interval: Int32
    """(E,) the present one, from 0"""
    arrived: Int32
    """(E,) jobs that have arrived by the beginning of the interval"""
    finished: Int32
    """(E,) jobs that are complete"""
    gpu: Int32
    """(E, M) type of each server's GPUs"""
    free: Int32
    """(E, M, K) units of each server that no task has"""
    tasks: Int32
    """(E, M) tasks on each server"""
    owner: Int32
    """(E, M) the exclusive job that has the server alone, or NONE"""
    placed: Int8
    """(E, J, M, 2) workers and parameter servers of each job on each server"""
    left: Int32
    """(E, J, 2) tasks that are not placed yet, by kind"""
    spread: Int32
    """(E, J) servers with a task of the job"""
    running: Int32
    """(E, R) rows of the jobs that run, in the order of their placement"""
    running_count: Int32
    """(E,)"""
    speed: Float64
    """(E, R) epochs a minute of the jobs that ran when last asked"""
    waiting: Int32
    """(E, J) rows of the jobs that have arrived and do not run"""
    waiting_count: Int32
    """(E,)"""
    priority: Float64
    """(E, J) jobs with lower numbers are tried first, then those that came first"""
    refused: Int32
    """(E, J) the interval in which the job last found no room, or NONE"""
    current: Int32
    """(E,) the job to place, or NONE"""
    plan: Int32
    """(E, T) scratch of heuristics: actions that they try, T the most tasks of a job"""
    worth: Float64
    """(E, R) scratch of heuristics: speeds over the best, of `running` before a job is placed"""
    done: Float64
    """(E, J) epochs trained"""
    placed_in: Int32
    """(E, J) interval at whose beginning the job was placed, or NONE"""
    end_min: Float64
    """(E, J) when the job was complete; that of the cut if it was not"""
