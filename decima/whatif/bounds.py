"""Bounds of a session, by the plugin's names: slots of a pool, jobs that run at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from decima.whatif.replay import Recording
from traces.errors import TraceError
from traces.files.names import counted, suggestion

_KIND = "pool."
MAX_BOUND = 2**31 - 1
"""the largest that the plugin takes"""
MaxSlots = Mapping[str, int]
"""by pool, the most slots that its jobs may hold together"""


def parse_max_slots(texts: Iterable[str]) -> dict[str, int]:
    """Return caps by pool from texts ``pool.NAME=N``; ValueError if one is none, or named twice."""
    caps: dict[str, int] = {}
    for text in texts:
        key, _, number = text.rpartition("=")
        name = key.removeprefix(_KIND)
        if not key.startswith(_KIND) or not name:
            raise ValueError(f"--max-slots {text!r:.80}: pool.NAME=N is needed")
        is_count = number.isascii() and number.isdecimal() and len(number) < 12
        if not is_count or not 1 <= int(number) <= MAX_BOUND:
            raise ValueError(
                f"--max-slots {text!r:.80}: slots are a whole number from 1 to {MAX_BOUND:,}"
            )
        if name in caps:
            raise ValueError(f"--max-slots: pool {name!r:.60} is named twice")
        caps[name] = int(number)
    return caps


def check_max_slots(recording: Recording, caps: MaxSlots) -> None:
    """Refuse (TraceError) caps of pools that no job names, or that are too small for a stage."""
    pools = np.array([record.pool or "" for record in recording.driver])
    named = sorted({pool for pool in pools.tolist() if pool})
    for name, slots in caps.items():
        if name not in named:
            pools_text = (
                ", ".join(named[:10]) if named else "none: no job sets spark.scheduler.pool"
            )
            raise TraceError(
                f"--max-slots pool.{name:.60}={slots}: no recorded job is in this pool"
                f"{suggestion(name, named)}; there are {pools_text}"
            )
        for row in np.flatnonzero(pools == name).tolist():
            job = recording.trace.jobs[row]
            for stage in job.stages:
                least = stage.slots * (stage.num_tasks if stage.barrier else 1)
                if least > slots:
                    raise TraceError(
                        f"--max-slots pool.{name:.60}={slots}: {stage.name} of {job.name!r:.60} "
                        f"needs {counted(least, 'slot')} at once"
                    )


def bounds_settings(max_slots: MaxSlots | None, max_jobs: int | None) -> dict[str, int]:
    """The bounds as settings of the plugin, without its prefix."""
    settings = {f"maxSlots.{_KIND}{name}": slots for name, slots in (max_slots or {}).items()}
    return settings if max_jobs is None else {**settings, "maxJobs": max_jobs}


def bounds_words(max_slots: MaxSlots | None, max_jobs: int | None) -> str:
    """The bounds as text: "maxSlots.pool.small 2, maxJobs 4"."""
    settings = bounds_settings(max_slots, max_jobs)
    return ", ".join(f"{name} {value}" for name, value in settings.items())
