"""The cluster and its jobs: the paper's constants, and those of the authors' released code.

Durations are in time steps (the paper's t), demands in units of a resource; `capacity` units are
the paper's 1r.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Annotated, Literal

from decima.rl.study.settings import Positive, Range, Settings

Span = tuple[int, int]
"""lowest and highest whole number, each as likely as any between"""

MAX_POOLS = 64
"""resources of all machines"""
MAX_WHOLE = 10**9
"""parts into which resources of several capacities are divided: utilisation is summed in these"""
MAX_DURATION, MAX_JOBS, MAX_STEPS = 25, 1_500, 10_000
"""of a job, a job set and an episode: sums of slowdowns in whole units, each the least common
multiple of all durations over a job's own, then fit 64 bits"""


@dataclass(frozen=True)
class Config(Settings):
    """Settings of a cluster. The defaults are the paper's (section 4.1).

    The paper's demands lie between 0.05r and 0.5r and its images are 10 cells wide for each
    resource. Here a unit is 0.05r, so all those demands are whole. A job's image shows one unit a
    cell, up to 0.5r; the cluster's shows two, so that both are 10 wide and the network has
    exactly the paper's number of parameters. Nothing is lost: a cell may be half full.
    """

    resources: Annotated[int, Range(1, 16)] = 2
    """d, of a machine"""
    capacity: Annotated[int, Range(1, 10_000)] = 20
    """units of each resource: 1r"""
    capacity_by_resource: tuple[int, ...] = ()
    """units of each, if they differ; (): all have `capacity`"""
    machines: Annotated[int, Range(1, MAX_POOLS)] = 1
    """all alike. A job runs on one of them: where it can start first, of equal ones the first"""
    horizon: Annotated[int, Range(1, MAX_STEPS)] = 20
    """T, steps that images look ahead; jobs are placed within them"""
    unused_steps: Annotated[int, Range(0, MAX_STEPS)] = 0
    """steps at the end of the horizon in which no job is placed; 1 in `allocate_job` of the
    released code, so that with 0 a job may start one step later"""
    slots: Annotated[int, Range(1, MAX_JOBS)] = 10
    """M, waiting jobs that the scheduler sees and may choose"""
    backlog: Annotated[int, Range(1, 2**15)] = 60
    """waiting jobs beyond those that the image can count; more wait too and are not lost"""
    cluster_columns: Annotated[int, Range(1, 10_000)] = 10
    """cells of the cluster image for each resource"""
    shows_last_arrival: bool = False
    """whether a further column has the time since the last arrival, as in the released code"""
    load: Positive = 0.7
    """mean work that arrives in a step, over what a resource can do in a step"""
    arrival_steps: Annotated[int, Range(1, MAX_JOBS)] = 50
    """steps in which jobs arrive: how long an experiment lasts"""
    arrival_trials: Annotated[int, Range(1, MAX_JOBS)] = 3
    """chances for a job to arrive in one step, all alike. With one a step (a plain Bernoulli
    process) jobs of this size cannot load the cluster above 92 %"""
    max_steps: int = 300
    """an episode that is not over by then is cut"""
    end: Literal["all_done", "no_new_job"] = "all_done"
    """when an episode ends: when all jobs are complete; or already with the last step in which jobs
    arrive, as with this setting of the released code"""
    jobs_file: str = ""
    """of jobs (`deeprm.jobs`), in place of drawn ones: each set is what arrives in a random
    stretch of `arrival_steps` steps; the load is the file's"""
    small_share: Annotated[float, Range(0, 1)] = 0.8
    """of the jobs; the others are large"""
    small_duration: Span = (1, 3)
    large_duration: Span = (10, 15)
    dominant_demand: Span = (5, 10)
    """units of the resource, picked at random, of which a job needs most"""
    other_demand: Span = (1, 2)
    """units of each other resource"""

    def check(self) -> None:
        """Refuse jobs that cannot be placed, and more of them than can come or be counted."""
        for name in ("small_duration", "large_duration", "dominant_demand", "other_demand"):
            low, high = getattr(self, name)
            whole = isinstance(low, int) and isinstance(high, int)
            self.require(whole, f"{name} is {low} to {high}: whole numbers are needed")
            rises = 1 <= low <= high
            self.require(rises, f"{name} is {low} to {high}: it must not fall, nor be below 1")
        longest = min(self.reach, MAX_DURATION)
        self.require(
            self.max_duration <= longest,
            f"jobs last up to {self.max_duration} steps: at most {longest} can be placed",
        )
        count = len(self.capacity_by_resource)
        self.require(
            count in (0, self.resources),
            f"capacity_by_resource has {count} entries: there are {self.resources} resources",
        )
        for units in self.capacities:
            self.require(1 <= units <= 10_000, f"a capacity is {units}: 1 to 10,000 units")
            self.require(
                self.max_demand <= units,
                f"jobs need up to {self.max_demand} units: a resource has {units}",
            )
            self.require(
                units % self.cluster_columns == 0,
                f"{units} units do not fill {self.cluster_columns} columns evenly",
            )
        self.require(
            self.pools <= MAX_POOLS,
            f"{self.machines} machines of {self.resources} resources: at most {MAX_POOLS} in all",
        )
        multiple = math.lcm(*self.capacities)
        self.require(
            multiple <= MAX_WHOLE,
            f"the least common multiple of the capacities is {multiple}: at most {MAX_WHOLE:,}",
        )
        most = self.arrival_steps * self.arrival_trials
        self.require(
            most <= MAX_JOBS, f"up to {most} jobs may arrive: at most {MAX_JOBS} are allowed"
        )
        self.require(
            self.arrival_steps < self.max_steps <= MAX_STEPS,
            f"max_steps is {self.max_steps}: jobs arrive for {self.arrival_steps}, and at most "
            f"{MAX_STEPS} can be counted",
        )
        self.require(
            self.arrival_rate <= self.arrival_trials,
            f"a load of {self.load} needs {self.arrival_rate:.2f} jobs in a step: "
            f"{self.arrival_trials} can arrive",
        )

    # --- what follows from it --------------------------------------------------------------------

    @property
    def capacities(self) -> tuple[int, ...]:
        """(d,) units of each resource of a machine"""
        return self.capacity_by_resource or (self.capacity,) * self.resources

    @property
    def pools(self) -> int:
        """P, resources of all machines"""
        return self.machines * self.resources

    @property
    def reach(self) -> int:
        """steps ahead by whose end a placed job must be complete"""
        return self.horizon - self.unused_steps

    @property
    def last_step(self) -> int:
        """step at which an episode is over at the latest"""
        return self.arrival_steps if self.end == "no_new_job" else self.max_steps

    @property
    def max_duration(self) -> int:
        """steps, of the longest job"""
        return max(self.small_duration[1], self.large_duration[1])

    @property
    def max_demand(self) -> int:
        """units, of any job for any resource"""
        return max(self.dominant_demand[1], self.other_demand[1])

    @property
    def actions(self) -> int:
        """M + 1: 0 is void, m the job in slot m"""
        return self.slots + 1

    @property
    def mean_work(self) -> float:
        """Mean share of one resource that a job takes, times the steps for which it does."""
        duration = self.small_share * sum(self.small_duration) / 2.0
        duration += (1.0 - self.small_share) * sum(self.large_duration) / 2.0
        demand = sum(self.dominant_demand) / 2.0
        demand += (self.resources - 1) * sum(self.other_demand) / 2.0
        # The harmonic mean, exact, so that equal capacities give the figures of one.
        mean = self.resources / sum(Fraction(1, units) for units in self.capacities)
        return duration * demand / self.resources / float(mean) / self.machines

    @property
    def arrival_rate(self) -> float:
        """Mean number of jobs that arrive in a step."""
        return self.load / self.mean_work

    def at_load(self, load: float) -> Config:
        """Return the configuration with another arrival rate; 0.7 is 70 %."""
        return replace(self, load=load)


PAPER = Config()
"""HotNets 2016, sections 3 and 4.1, at a load of 70 %"""

RELEASED = Config(
    capacity=10,
    slots=5,
    shows_last_arrival=True,
    load=0.7 * 4.1 * 0.45,
    arrival_steps=10,
    arrival_trials=1,
    max_steps=200,
)
"""The defaults of the authors' code (hongzimao/deeprm, parameters.py): demands are twice the
paper's, one job at most arrives in a step, with probability 0.7, for 10 steps"""

CONFIGS: Mapping[str, Config] = {"paper": PAPER, "released": RELEASED}
"""by name"""
