"""`HeuristicSpec`: what a heuristic declares beside its `decide`, and the types of compiled ones.

A module of this package that holds a mapping `HEURISTICS` of names and specifications is found by
`decima.heuristics.run`; no other file names it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spark_sim.observation import Observation
from spark_sim.tables import ANY_LIMIT, Table
from traces.arrays import TraceArrays

Numbers = NDArray[np.float64]
"""(P,) the parameters of a heuristic, in the order its specification names them"""

PER_ROUND = 8
"""numbers that a heuristic may store of a round"""
PER_JOB = 176
"""numbers that it may store of each job"""
IN_ALL = 640
"""numbers that it may store of all jobs together"""
COUNTS = 4096
"""counts of tasks or executors of which it may store a number each"""


class Scratch(NamedTuple):
    """Work space of a heuristic in one run, with room for J jobs; with J 0 it stores nothing."""

    draws: NDArray[np.uint64]  # (2,) key and counter of a randomised heuristic
    stored: NDArray[np.int64]  # (PER_ROUND,) of the open round (`rounds.is_new`)
    counts: NDArray[np.int64]  # (4, J) by place among the jobs in the system
    numbers: NDArray[np.float64]  # (J, PER_JOB) likewise
    keys: NDArray[np.float64]  # (J,) likewise
    shared: NDArray[np.float64]  # (IN_ALL,) of all jobs
    logs: NDArray[np.float64]  # (2, COUNTS) log(count / divisor), and that divisor


def scratch_for(key: int, jobs: int = 0) -> Scratch:
    """Return the work space for runs of up to `jobs` jobs.

    Args:
        key: 64 random bits, for a heuristic that draws.
        jobs: 0 where decisions of several runs alternate.
    """
    return Scratch(
        np.array([key, 0], np.uint64),
        np.full(PER_ROUND, -1, np.int64),
        np.zeros((4, jobs), np.int64),
        np.zeros((jobs, PER_JOB)),
        np.zeros(jobs),
        np.zeros(IN_ALL),
        np.zeros((2, COUNTS)),
    )


@dataclass(frozen=True)
class HeuristicSpec:
    """One heuristic: its compiled code, its parameters and what they may be."""

    decide: Callable[[Observation, Numbers, Scratch], tuple[int, int, int]]
    """kernel that returns a stage, its job's limit and a class of executors; stage NONE passes,
    class ANY leaves the class to the simulator"""
    summary: str
    """one line for lists"""
    place: int
    """place in lists, small numbers first"""
    defaults: Mapping[str, float] = field(default_factory=dict)
    """parameters by name, in the order of `Numbers`"""
    search: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """the values that `decima tune` tries; empty if there is nothing to tune"""
    inseparable: bool = False
    """True if the parameters were fitted together, so that all or none must be given"""
    plan: Callable[[TraceArrays, Table], Numbers] | None = None
    """numbers that follow the parameters, computed from the trace and the classes before a run"""
    idle_insensitive: bool = False
    """True if results in a session are equal with `Cluster.ask_while_idle` off"""
    limits: int = ANY_LIMIT
    """its limits in a session while slots are left over, if its choices for a job, and their order,
    depend on nothing but these and that job then"""


def shipped_weights(policy: str, names: Sequence[str]) -> dict[str, float]:
    """Return the parameters of `policy` from the package's data, in the order of `names`.

    The file, of the form that `decima tune` writes, may hold no others: they would have been fitted
    to other code.
    """
    content = json.loads((files("decima.heuristics") / "data" / f"{policy}.json").read_text())
    weights: dict[str, float] = content["parameters"]
    if sorted(weights) != sorted(names):
        raise RuntimeError(f"the weights of {policy} in this installation belong to other code")
    return {name: float(weights[name]) for name in names}
