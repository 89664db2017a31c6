"""The cluster, its jobs and how they come: the paper's constants where it gives them.

Source: Harmony, section VI-A of the journal version: 6 servers of 2 GPUs, 8 cores and 48 GB, an
interval of 20 minutes, 1 to 3 workers and as many parameter servers, half of the jobs all-reduce,
3 jobs an interval or Poisson with 2. The sizes of jobs are not from the paper: see docs/harmony.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Literal, NamedTuple

from decima.rl.errors import StudyError
from decima.rl.study.settings import ABOVE_0, Range, Settings
from harmony.tables import ANALYTIC, MEASURED_PRODUCT, MEASURED_WORST

Arrivals = Literal["uniform", "poisson", "trace"]
MAX_JOBS, MAX_SERVERS, MAX_TASKS = 2_000, 100, 32
MAX_UNITS, MAX_INTERVALS = 1_000_000, 1_000_000
"""of a resource of a server, and of an episode: kernels count in 32 bits"""
MAX_SAMPLES = 1_000_000
"""that a training keeps in memory"""
MAX_MIN = 1e10
"""minutes that a float represents to a millisecond"""
Units = Annotated[int, Range(1, MAX_UNITS)]
Minutes = Annotated[float, Range(ABOVE_0, MAX_MIN)]
Share = Annotated[float, Range(0.0, 1.0)]
Deviation = Annotated[float, Range(0.0, 10.0)]
_RATE_MIN = 20.0
MOST_GPU_TYPES = 16
_SLOWEST, _FASTEST = 0.01, 100.0
_LONGEST_NAME = 40


class GpuType(NamedTuple):
    """One type of GPU, written `NAME:SERVERS:SPEED`, such as `V100:3:2`.

    Speeds are relative: those that are measured, and the minutes of jobs, are of a type with speed
    1.
    """

    name: str
    servers: int
    """that have GPUs of this type alone"""
    speed: float
    """of a job whose slowest worker has one, over its speed on a type of speed 1"""

    @classmethod
    def parse(cls, text: str) -> GpuType:
        """Return the type that a text describes.

        Raises StudyError if it describes none.
        """
        name, *numbers = text.split(":")
        rule = f"gpu_types has {text!r:.60}: NAME:SERVERS:SPEED is needed, such as V100:3:2"
        if len(numbers) != 2 or not 0 < len(name) <= _LONGEST_NAME:
            raise StudyError(rule)
        try:
            gpu = cls(name, int(numbers[0]), float(numbers[1]))
        except ValueError as fault:
            raise StudyError(rule) from fault
        if gpu.servers < 0:
            raise StudyError(f"gpu_types has {text!r:.60}: servers must not be negative")
        if not _SLOWEST <= gpu.speed <= _FASTEST:
            raise StudyError(
                f"gpu_types has {text!r:.60}: a speed from {_SLOWEST:g} to {_FASTEST:g}"
            )
        return gpu


@dataclass(frozen=True)
class Config(Settings):
    """Settings of a cluster."""

    servers: Annotated[int, Range(1, MAX_SERVERS)] = 6
    """M"""
    gpus: Units = 2
    """of a server"""
    cores: Units = 8
    memory_gb: Units = 48
    network_gbps: Units = 50
    gpu_types: tuple[str, ...] = ()
    """of the servers in their order, each `NAME:SERVERS:SPEED` (`GpuType`); without any
    all GPUs are alike"""
    gpu_required_share: Share = 0.0
    """of drawn jobs, which need a certain type: that of a random server, if they find room there"""
    interval_min: Minutes = 20.0
    """jobs are placed at its beginning"""
    arrivals: Arrivals = "uniform"
    """`uniform`: the same number in each 20 minutes, at random times; `poisson`; or `trace`: times
    of a file, of which each sequence begins at a random job"""
    jobs_per_20_min: Annotated[float, Range(1e-6, 1e6)] = 3.0
    """mean; a fraction carries over to the next 20 minutes"""
    arrivals_file: str = ""
    """of a trace: JSON with a list `arrivals` of rising times, in any unit; "" is the package's"""
    jobs_file: str = ""
    """table of jobs (`harmony.jobs`), of which each sequence takes some in a row; "" draws
    them. With `arrivals = "trace"` they arrive as there, at the configuration's mean rate"""
    table_file: str = ""
    """of interference between one's own models (`harmony.measured`); "" is the package's"""
    exclusive_share: Share = 0.0
    """of the jobs, which share no server with another"""
    jobs: Annotated[int, Range(1, MAX_JOBS)] = 60
    """of a sequence"""
    max_workers: int = 3
    """workers, and parameter servers, are 1 to so many, all alike"""
    all_reduce_share: Share = 0.5
    """of jobs that have no parameter servers"""
    median_min: Minutes = 20.0
    """time that half of the jobs need at most, alone on the fewest servers"""
    sigma: Deviation = 1.0
    """of the logarithm of that time, which is normal"""
    longest_min: Minutes = 400.0
    """longer ones are cut to this; shorter than a twentieth of the median to that"""
    speed: Literal["measured", "analytic"] = "measured"
    """how neighbours slow a job: as DeepShare measured, or by contention for cores and network"""
    several: Literal["worst", "product"] = "product"
    """with several neighbours: the product over them, or as measured with the worst of them"""
    noise: Deviation = 0.0
    """standard deviation of the logarithm of speeds"""
    max_intervals: Annotated[int, Range(1, MAX_INTERVALS)] = 1_000
    """an episode that is not over by then is cut"""

    def check(self) -> None:
        """Refuse jobs without room, and times that contradict each other."""
        self.require(
            1 <= self.max_workers <= min(MAX_TASKS, self.servers * self.gpus),
            f"max_workers is {self.max_workers}: 1 to {MAX_TASKS}, and to the GPUs there are",
        )
        self.require(
            self.longest_min >= self.median_min,
            f"longest_min is {self.longest_min}: at least median_min, {self.median_min}",
        )
        self.require(
            "" in (self.arrivals_file, self.jobs_file),
            "arrivals_file and jobs_file both have times of arrival: one may be given",
        )
        self.require(
            self.arrivals_file == "" or self.arrivals == "trace",
            f"arrivals_file is for arrivals = trace, not {self.arrivals}",
        )
        self.require(
            len(self.gpu_table) > 1 or self.gpu_required_share == 0.0,
            "gpu_required_share is for clusters of several gpu_types",
        )

    @property
    def capacity(self) -> tuple[int, int, int, int]:
        """(K,) units of each server"""
        return (self.gpus, self.cores, self.memory_gb, self.network_gbps)

    @property
    def gpu_table(self) -> tuple[GpuType, ...]:
        """Types of GPU; one without a name where all are alike."""
        if not self.gpu_types:
            return (GpuType("", self.servers, 1.0),)
        if len(self.gpu_types) > MOST_GPU_TYPES:
            raise StudyError(
                f"{len(self.gpu_types)} types of GPU: at most {MOST_GPU_TYPES} are possible"
            )
        table = tuple(GpuType.parse(text) for text in self.gpu_types)
        names = [gpu.name for gpu in table]
        if len(set(names)) < len(names):
            raise StudyError(f"gpu_types names a type twice: {', '.join(names)}")
        total = sum(gpu.servers for gpu in table)
        if total != self.servers:
            raise StudyError(f"gpu_types has {total} servers, where the cluster has {self.servers}")
        return table

    def gpu_number(self, name: str) -> int:
        """Return the number of a type of GPU by its name.

        Raises StudyError if there is no such type.
        """
        names = [gpu.name for gpu in self.gpu_table]
        if name not in names:
            known = f"there are {', '.join(names)}" if self.gpu_types else "the cluster names none"
            raise StudyError(f"GPU is {name!r:.40}; {known}")
        return names.index(name)

    @property
    def actions(self) -> int:
        """2 M: a worker on server m, then a parameter server on server m"""
        return 2 * self.servers

    @property
    def mean_tasks(self) -> float:
        """Mean number of tasks of a job."""
        return (1.0 + self.max_workers) / 2.0 * (2.0 - self.all_reduce_share)

    @property
    def most_servers(self) -> int:
        """Largest number of servers that a job can be on."""
        return min(self.servers, 2 * self.max_workers)

    @property
    def most_running(self) -> int:
        """jobs that can run at once: each has a GPU"""
        return min(self.jobs, self.servers * self.gpus)

    @property
    def speed_code(self) -> int:
        """Code of the speed model in kernels."""
        if self.speed == "analytic":
            return ANALYTIC
        return MEASURED_WORST if self.several == "worst" else MEASURED_PRODUCT

    @property
    def per_min(self) -> float:
        """Mean number of jobs that arrive in a minute."""
        return self.jobs_per_20_min / _RATE_MIN

    def arriving(self, arrivals: Arrivals) -> Config:
        """Return the configuration with other arrivals, at the rate that belongs to them."""
        rate = self.jobs_per_20_min * RATES[arrivals] / RATES[self.arrivals]
        file = self.arrivals_file if arrivals == "trace" else ""
        return replace(self, arrivals=arrivals, jobs_per_20_min=rate, arrivals_file=file)


RATES: Mapping[Arrivals, float] = {"uniform": 3.0, "poisson": 2.0, "trace": 2.0}
"""jobs in 20 minutes; the trace's is not from the paper"""

PAPER = Config()
"""6 servers on measured interference"""

LARGE = Config(servers=30, max_workers=10, jobs_per_20_min=4.0, jobs=100)
"""30 servers and up to 10 workers, figure 14; more jobs come, so that it is about as busy"""

CONFIGS: Mapping[str, Config] = {"6": PAPER, "30": LARGE}
"""by the number of servers"""
