"""Replaying what Spark's event logs recorded. `docs/whatif.md` tells how and how well."""

from decima.replay.check import Fidelity, ReplayReport, ReplaySettings, replay
from decima.replay.driver import DriverRecord, Recording, read_recording
from decima.replay.workload import ReplayWorkload

__all__ = [
    "DriverRecord",
    "Fidelity",
    "Recording",
    "ReplayReport",
    "ReplaySettings",
    "ReplayWorkload",
    "read_recording",
    "replay",
]
