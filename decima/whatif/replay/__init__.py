"""Replay of Spark's event logs; see `docs/whatif.md` for the method and its error."""

from decima.whatif.replay.check import Fidelity, ReplayReport, ReplaySettings, replay
from decima.whatif.replay.driver import DriverRecord
from decima.whatif.replay.recording import Recording, read_recording
from decima.whatif.replay.workload import ReplayWorkload

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
