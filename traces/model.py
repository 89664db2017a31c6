"""Records of a trace: jobs of stages, stages of tasks.

A *job* is a directed acyclic graph (DAG) of *stages*; a stage is a set of tasks of equal code,
which may run once all parents are complete. How long a task takes depends on its *wave*:

* ``fresh``: first task of an executor that has just joined the job (it still loads classes);
* ``first``: first task in this stage of an executor that already worked for the job;
* ``rest``:  a later task of an executor in the same stage;

and on the *level*: the number of executors that worked for the job when the duration was measured
(work inflation: the more executors a job has, the longer each task takes).

Everything here is validated when it is built, so the rest of the project never checks again.
All durations are milliseconds.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from numbers import Integral
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from traces.errors import TraceError
from traces.files.names import is_clean
from traces.files.numbers import MAX_TIME_MS

if TYPE_CHECKING:
    from networkx import DiGraph

FloatArray = NDArray[np.float32]

WAVES = ("fresh", "first", "rest")  # the waves, in the order in which arrays and files hold them

MAX_TASKS_PER_STAGE = 10_000_000  # a larger count is taken for a corrupt file, not for a stage

MAX_NAME = 1_000  # characters of a name; importers shorten longer ones

LATEST = f"{MAX_TIME_MS:g}: later times are not resolved to a millisecond"

MAX_EXECUTORS = 1_000_000  # a larger executor level is also taken for a corrupt file

MAX_SLOTS = 100_000  # of one task; more than any cluster has


@dataclass(frozen=True, slots=True, eq=False)
class LevelDurations:
    """Task durations of one stage, measured while its job had `executors` executors.

    A wave without measurements is an empty array; at least one of the three is not empty.
    """

    executors: int
    """the level: executors of the job at the time of measuring, >= 1"""
    fresh_ms: FloatArray
    """(K0,) first task of an executor in the job, start-up included"""
    first_ms: FloatArray
    """(K1,) first task in the stage of an executor that already worked for the job"""
    rest_ms: FloatArray
    """(K2,) later tasks of an executor in the stage"""

    @classmethod
    def of(
        cls,
        executors: int,
        *,
        fresh_ms: Iterable[float] = (),
        first_ms: Iterable[float] = (),
        rest_ms: Iterable[float] = (),
    ) -> LevelDurations:
        """Build from any iterables of numbers."""
        return cls(executors, *(_frozen(values) for values in (fresh_ms, first_ms, rest_ms)))

    def __post_init__(self) -> None:
        if not 1 <= self.executors <= MAX_EXECUTORS:
            raise TraceError(
                f"executor level {self.executors} must lie between 1 and {MAX_EXECUTORS:,}"
            )
        for wave, values in zip(WAVES, self.waves, strict=True):
            bad = values[~((values > 0) & (values <= MAX_TIME_MS))]  # also of NaN
            if len(bad):
                rule = f"at most {LATEST}" if bad[0] > 0 else "positive"
                raise TraceError(
                    f"level {self.executors}, {wave} wave: duration {bad[0]:g} ms must be {rule}"
                )
        if not any(len(values) for values in self.waves):
            raise TraceError(f"level {self.executors} holds no duration in any wave")

    @property
    def waves(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The three arrays in the order of `WAVES`."""
        return self.fresh_ms, self.first_ms, self.rest_ms

    @property
    def mean_ms(self) -> float:
        """Mean over all measured tasks of the level, of all waves."""
        count = sum(len(values) for values in self.waves)
        return float(sum(values.sum(dtype=np.float64) for values in self.waves)) / count


@dataclass(frozen=True, slots=True)
class Stage:
    """A set of `num_tasks` tasks that may start when every stage in `parents` is complete."""

    name: str
    num_tasks: int
    parents: tuple[int, ...]
    """indices of stages of the same job"""
    durations: tuple[LevelDurations, ...]
    """levels, strictly increasing in `executors`; at least one"""
    cpu: float | None = None
    """cores that each task needs; None where the trace lacks it"""
    memory_mb: float | None = None
    """memory that each task needs; None where the trace lacks it"""
    slots: int = 1
    """slots of one executor that each task takes"""
    barrier: bool = False
    """whether all tasks start at once, as in Spark's barrier mode"""

    def __post_init__(self) -> None:
        check_name("stage", self.name)
        for label, count in (("num_tasks", self.num_tasks), ("slots", self.slots)):
            if not isinstance(count, Integral) or isinstance(count, bool):
                raise TraceError(
                    f"stage {self.name!r}: {label} {count!r:.40} is not a whole number"
                )
        if not 1 <= self.num_tasks <= MAX_TASKS_PER_STAGE:
            raise TraceError(
                f"stage {self.name!r}: {self.num_tasks} tasks, "
                f"a stage has between 1 and {MAX_TASKS_PER_STAGE:,}"
            )
        if not self.durations:
            raise TraceError(f"stage {self.name!r} holds no task duration")
        levels = [level.executors for level in self.durations]
        if any(low >= high for low, high in itertools.pairwise(levels)):
            raise TraceError(f"stage {self.name!r}: executor levels {levels} must increase")
        for label, demand in (("cpu", self.cpu), ("memory_mb", self.memory_mb)):
            if demand is not None and not (math.isfinite(demand) and demand >= 0):
                raise TraceError(
                    f"stage {self.name!r}: {label} {demand} must be finite and not negative"
                )
        if not 1 <= self.slots <= MAX_SLOTS:
            raise TraceError(
                f"stage {self.name!r}: a task takes {self.slots} slots, it must be between 1 and "
                f"{MAX_SLOTS:,}"
            )

    @classmethod
    def fixed(cls, name: str, num_tasks: int, task_ms: float, parents: Sequence[int] = ()) -> Stage:
        """A stage whose every task takes `task_ms` in all waves and levels."""
        every = LevelDurations.of(1, fresh_ms=[task_ms], first_ms=[task_ms], rest_ms=[task_ms])
        return cls(name, num_tasks, tuple(parents), (every,))

    @property
    def mean_ms(self) -> float:
        """Mean over all measured tasks of all levels (decima-sim's "rough duration")."""
        waves = [values for level in self.durations for values in level.waves]
        total = float(sum(values.sum(dtype=np.float64) for values in waves))
        return total / sum(len(values) for values in waves)

    @property
    def work_ms(self) -> float:
        """Slot-milliseconds of the whole stage at its smallest level."""
        return self.num_tasks * self.durations[0].mean_ms * self.slots


@dataclass(frozen=True, repr=False)
class Job:
    """A DAG of stages, in an order of the trace's own (parents need not come first)."""

    name: str
    stages: tuple[Stage, ...]
    arrival_ms: float | None = None
    """submission time in the recording; None where the trace lacks it"""
    weight: float = 1.0
    """what the job counts for in a weighted average"""
    deadline_ms: float | None = None
    """time after the arrival at which the job is due; None if it has no deadline"""

    def __post_init__(self) -> None:
        check_name("job", self.name)
        if not self.stages:
            raise TraceError(f"job {self.name!r} has no stage")
        if self.arrival_ms is not None and not 0 <= self.arrival_ms <= MAX_TIME_MS:
            rule = "not be negative" if self.arrival_ms < 0 else f"be at most {LATEST}"
            raise TraceError(f"job {self.name!r}: arrival {self.arrival_ms} ms must {rule}")
        if not 0 < self.weight < math.inf:
            raise TraceError(f"job {self.name!r}: weight {self.weight} must be positive and finite")
        if self.deadline_ms is not None and not 0 < self.deadline_ms <= MAX_TIME_MS:
            rule = f"at most {LATEST}" if self.deadline_ms > 0 else "positive"
            raise TraceError(f"job {self.name!r}: deadline {self.deadline_ms} ms must be {rule}")
        names = set[str]()
        for stage in self.stages:
            if stage.name in names:
                raise TraceError(f"job {self.name!r}: stage name {stage.name!r} is used twice")
            names.add(stage.name)
        self._check_parents()
        _ = self.topological_order
        if not self.work_ms <= MAX_TIME_MS:
            raise TraceError(
                f"job {self.name!r}: work of {self.work_ms:g} ms must be at most {LATEST}"
            )

    def __repr__(self) -> str:
        return f"<Job {self.name!r}: {len(self.stages)} stages, {self.num_tasks:,} tasks>"

    @classmethod
    def from_networkx(cls, graph: DiGraph, name: str | None = None) -> Job:
        """Build a job from a graph of networkx: a node is a stage, an edge leads to its child.

        Args:
            graph: attributes of a node are fields of `Stage` other than its name and parents, of
                which `num_tasks` and `durations` must be there; in place of `durations` a number
                `task_ms` may say how long every task takes. Attributes of the graph are fields of
                `Job`.
            name: of the job; None takes the graph's attribute `name`.

        Raises:
            TraceError: the graph is undirected or a multigraph, an attribute is missing or unknown,
                or the job breaks a rule of this module, as by a cycle.
        """
        label = graph.graph.get("name", "") if name is None else name
        if not isinstance(label, str):
            raise TraceError(f"job {label!r:.60}: the name of a job is a text")
        if not graph.is_directed() or graph.is_multigraph():
            raise TraceError(f"job {label!r:.60}: {type(graph).__name__} is not a DiGraph")
        index_of = {node: index for index, node in enumerate(graph)}
        where = f"job {label!r:.60}"
        stages = []
        for node, attributes in graph.nodes.items():
            at = f"{where}: stage {str(node)!r:.60}"
            values = dict(attributes)
            unknown = values.keys() - {*_STAGE_ATTRIBUTES, "task_ms"}
            if unknown:
                raise TraceError(f"{at} has the unknown attribute {min(map(repr, unknown))}")
            if "task_ms" in values and "durations" in values:
                raise TraceError(f"{at} has both durations and task_ms")
            try:
                if "task_ms" in values:
                    values["durations"] = Stage.fixed("task_ms", 1, values.pop("task_ms")).durations
                missing = {"num_tasks", "durations"} - values.keys()
                if missing:
                    raise TraceError(f"{at} lacks {min(missing)!r}")
                parents = tuple(index_of[parent] for parent in graph.pred[node])
                stages.append(Stage(str(node), parents=parents, **values))
            except TraceError as error:
                raise TraceError(str(error) if at in str(error) else f"{at}: {error}") from None
            except (TypeError, ValueError, AttributeError) as error:
                raise TraceError(f"{at}: {error}") from None
        unknown = graph.graph.keys() - set(_JOB_ATTRIBUTES)
        if unknown:
            raise TraceError(f"{where} has the unknown attribute {min(map(repr, unknown))}")
        try:
            return cls(stages=tuple(stages), **{**graph.graph, "name": label})
        except TypeError as error:
            raise TraceError(f"{where}: {error}") from None

    def to_networkx(self) -> DiGraph:
        """Return the job as a graph of networkx, from which `from_networkx` makes an equal one.

        Raises:
            ImportError: networkx is not installed.
        """
        import networkx

        graph = networkx.DiGraph(**{key: getattr(self, key) for key in _JOB_ATTRIBUTES})
        for stage in self.stages:
            values = {key: getattr(stage, key) for key in _STAGE_ATTRIBUTES}
            graph.add_node(stage.name, **values)
        for stage in self.stages:
            graph.add_edges_from((self.stages[parent].name, stage.name) for parent in stage.parents)
        return graph

    def _check_parents(self) -> None:
        for index, stage in enumerate(self.stages):
            where = f"job {self.name!r}: stage {stage.name!r}"
            for parent in stage.parents:
                if parent == index:
                    raise TraceError(f"{where} is its own parent")
                if not 0 <= parent < len(self.stages):
                    raise TraceError(
                        f"{where} names parent {parent}, the job has stages "
                        f"0..{len(self.stages) - 1}"
                    )
            if len(set(stage.parents)) < len(stage.parents):
                raise TraceError(f"{where} names a parent twice: {list(stage.parents)}")

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """Children of each stage, by index."""
        children: list[list[int]] = [[] for _ in self.stages]
        for index, stage in enumerate(self.stages):
            for parent in stage.parents:
                children[parent].append(index)
        return tuple(tuple(row) for row in children)

    @cached_property
    def topological_order(self) -> tuple[int, ...]:
        """Stage indices, parents before children, by index where free to choose.

        Raises:
            TraceError: the stages form a cycle; the message names the stages on it.
        """
        missing = [len(stage.parents) for stage in self.stages]
        ready = [index for index, count in enumerate(missing) if count == 0]
        order: list[int] = []
        for stage in ready:  # grows while it is walked
            order.append(stage)
            for child in self.children[stage]:
                missing[child] -= 1
                if missing[child] == 0:
                    ready.append(child)
        if len(order) < len(self.stages):
            left = [self.stages[index].name for index, count in enumerate(missing) if count > 0]
            raise TraceError(
                f"job {self.name!r}: its stages form a cycle, through or above {left[:5]}"
            )
        return tuple(order)

    @cached_property
    def critical_path_ms(self) -> tuple[float, ...]:
        """Critical path of each stage: longest chain of mean task durations from its start to the
        job's end.
        """
        return tuple(longest_paths(self.children, [stage.mean_ms for stage in self.stages]))

    @property
    def num_tasks(self) -> int:
        return sum(stage.num_tasks for stage in self.stages)

    @property
    def num_edges(self) -> int:
        return sum(len(stage.parents) for stage in self.stages)

    @cached_property
    def work_ms(self) -> float:
        """Executor-milliseconds of all stages, each at its smallest level."""
        return sum(stage.work_ms for stage in self.stages)


_STAGE_ATTRIBUTES = tuple(key.name for key in fields(Stage) if key.name not in ("name", "parents"))
_JOB_ATTRIBUTES = tuple(key.name for key in fields(Job) if key.name != "stages")
"""attributes of nodes and of graphs of networkx"""


def check_name(what: str, name: str) -> None:
    """Refuse a name that is not printable, or too long for terminals, messages and files."""
    if not is_clean(name, MAX_NAME):
        raise TraceError(
            f"{what} {name!r:.60}: a name is printable, on one line, and has at most {MAX_NAME:,} "
            "characters (files.names.clean makes it so)"
        )


def longest_paths(children: Sequence[Sequence[int]], weight: Sequence[float]) -> list[float]:
    """Return, for each node, the largest sum of weights on a path that begins there, its own
    included.

    .. math:: c_v = w_v + \\max_{u \\in children(v)} c_u

    Not by recursion: jobs of iterative programs are thousands of stages deep.

    Args:
        children: (V,) rows of nodes, without a cycle.
        weight: (V,) not negative.
    """
    parents: list[list[int]] = [[] for _ in children]
    for node, row in enumerate(children):
        for child in row:
            parents[child].append(node)
    missing = [len(row) for row in children]
    longest = [0.0] * len(children)
    ready = [node for node, count in enumerate(missing) if count == 0]
    for node in ready:  # grows while it is walked
        longest[node] += weight[node]
        for parent in parents[node]:
            longest[parent] = max(longest[parent], longest[node])
            missing[parent] -= 1
            if missing[parent] == 0:
                ready.append(parent)
    return longest


def _frozen(values: Iterable[float]) -> FloatArray:
    with np.errstate(over="ignore"):  # overflow becomes infinity, which is refused by name
        array = np.array(
            values if isinstance(values, np.ndarray) else list(values), dtype=np.float32
        )
    array.flags.writeable = False
    return array
