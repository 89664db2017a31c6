"""The state of many episodes as plain arrays that kernels change in place.

Letters: S job sets, E episodes, J the most jobs of one, d resources, P pools (each resource of each
machine, machine by machine), T steps of the horizon, M slots.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

UInt8 = NDArray[np.uint8]
Int16 = NDArray[np.int16]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
Bool = NDArray[np.bool_]

NONE = -1
"""no job in a slot, no start of a job, no step at which it could start"""

VOID = 0
"""the action that lets time pass; action m is the job in slot m - 1"""

ObjectiveName = Literal["slowdown", "completion", "utilisation", "makespan"]
OBJECTIVES: tuple[ObjectiveName, ...] = get_args(ObjectiveName)
"""what a step costs is counted for each (`deeprm.objectives`)"""
COSTS = len(OBJECTIVES)
SLOWDOWN, COMPLETION, UTILISATION, MAKESPAN = range(COSTS)


class Jobs(NamedTuple):
    """S job sets, padded to J jobs; those of a set are in the order of arrival, from row 0."""

    number: Int32
    """(S,) jobs of the set, at least 1"""
    arrival: Int32
    """(S, J) step at whose beginning the job arrives; 0 beyond `number`"""
    duration: Int32
    """(S, J) steps, at least 1; 0 beyond `number`"""
    demand: Int32
    """(S, J, d) units of each resource, at least 1; 0 beyond `number`"""


class Rules(NamedTuple):
    """Parts of the configuration that kernels need."""

    capacity: Int64
    """(d,) units of each resource of a machine"""
    share: Int64
    """(d,) parts of a resource that one unit is, of `whole` parts"""
    whole: int
    """least common multiple of all capacities"""
    reach: int
    """steps ahead by whose end a placed job must be complete"""
    multiple: int
    """least common multiple of all durations"""
    arrival_steps: int
    """steps of the experiment: utilisation counts in these"""
    last_step: int
    """an episode is cut then"""


class State(NamedTuple):
    """E episodes. All numbers are whole, so that sums are exact in any order."""

    jobs_of: Int32
    """(E,) row of the job set"""
    time: Int32
    """(E,) steps since the start"""
    arrived: Int32
    """(E,) jobs that have arrived: rows 0 to arrived - 1 of the set"""
    entered: Int32
    """(E,) jobs that have come into a slot; those from here to `arrived` wait beyond the slots"""
    finished: Int32
    """(E,) jobs that are complete"""
    last_arrival: Int32
    """(E,) step at which a job last arrived"""
    slot: Int32
    """(E, M) row of the job that waits there, or NONE"""
    start: Int32
    """(E, J) step at which the job starts, once it is placed, or NONE"""
    machine: Int32
    """(E, J) machine on which the job was placed"""
    used: Int32
    """(E, T, P) units taken in the step `time` + row"""
    ending: Int32
    """(E, T) jobs that are complete at the end of that step"""
    ending_weight: Int64
    """(E, T) sum of their `weight`"""
    weight: Int64
    """(E,) sum over the jobs in the system of least common multiple / duration"""
    cost: Int64
    """(E, COSTS) of the whole episode so far, in the units of `deeprm.objectives`"""
