"""Times that tasks held their slots, failed and overtaken attempts included.

Spark starts a failed task anew as soon as a slot is free, so a task counts as one that takes as
long as its attempts together. A copy that ran beside its task (speculation) counts as a task of its
own. What still ran when its stage was complete (a copy that was overtaken) counts up to there.
"""

from __future__ import annotations

import numpy as np

from traces.numbers import Float64, Int64
from traces.spark_log.slots import SHORTEST_MS


def held_ms(
    partition: Int64, launch_ms: Int64, finish_ms: Int64, end_ms: int, *, barrier: bool = False
) -> Float64:
    """Durations of the tasks of a stage from (A,) attempts, in no order; `end_ms` completes it.

    Spark never copies a task of a barrier stage: all its attempts are one task, and are as many as
    must start at once.
    """
    began = launch_ms < end_ms
    partition, launch_ms = partition[began], launch_ms[began]
    finish_ms = np.minimum(finish_ms[began], end_ms)
    order = np.lexsort((launch_ms, partition))
    partition, launch_ms, finish_ms = partition[order], launch_ms[order], finish_ms[order]
    length = np.maximum(finish_ms - launch_ms, SHORTEST_MS).astype(np.float64)
    if len(partition) == 0:
        return np.full(1, float(SHORTEST_MS))
    # An attempt continues its task if all of its earlier ones had ended.
    latest = finish_ms.copy()
    continues = np.zeros(len(partition), np.bool_)
    for row in np.flatnonzero(partition[1:] == partition[:-1]) + 1:
        continues[row] = barrier or launch_ms[row] >= latest[row - 1] - SHORTEST_MS
        latest[row] = max(latest[row], latest[row - 1])
    found = np.zeros(int((~continues).sum()))
    np.add.at(found, np.cumsum(~continues) - 1, length)
    return found
