"""Compiled: the columns `decima.agent.columns.CLASS`, and those of classes in other tables.

Plain loops over flat arrays, for the speed that `benchmarks/policy_speed.py` measures.
"""

from __future__ import annotations

from decima.agent.column_arrays import ClassColumns
from decima.agent.kernels import inlined_kernel
from decima.agent.scene import Scene
from decima.heuristics.es_classes import scarcity
from decima.heuristics.stages import Row
from decima.heuristics.tetris import is_on_offer


@inlined_kernel
def scarcity_and_need(scene: Scene, decision: int, stage: Row) -> tuple[float, float]:
    """Columns "scarce" and "need" of a stage."""
    classes = scene.classes[decision]
    if len(classes) == 1:
        return 0.0, 0.0
    scarce = scarcity(classes, stage, scene.num_executors[decision])
    return scarce, stage["memory_mb"] / classes[-1]["memory_mb"]


@inlined_kernel
def describe_classes(
    scene: Scene, decision: int, index: int, row: int, number: int, out: ClassColumns
) -> int:
    """Write a stage's classes into the rows from `row` on; return the next free row."""
    out.ptr[index] = row
    classes = scene.classes[decision]
    if len(classes) == 1:
        return row
    stage = scene.stages[number]
    executors = float(scene.num_executors[decision])
    first = row
    for kind in range(len(classes)):
        if not is_on_offer(classes, stage, kind):
            continue
        one = classes[kind]
        out.kind[row] = kind
        out.stage[row] = index
        x = out.x[row]
        x[0] = one["memory_mb"] / classes[-1]["memory_mb"]
        x[1] = stage["memory_mb"] / one["memory_mb"]
        x[2] = one["on_offer"] / executors
        x[3] = one["on_offer"] / one["count"]
        x[4] = one["count"] / executors
        x[5] = 1.0 if stage["fits"] & ((1 << kind) - 1) != 0 else 0.0
        x[6] = 1.0 if row == first else 0.0
        row += 1
    return row
