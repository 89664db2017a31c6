"""The figures of a run as TensorBoard scalars: `tensorboard --logdir RUN`.

Records are framed here and written by the loop's own thread. `tensorboardX.SummaryWriter` leaves
that to a second thread, which dies on a full disk and lets the training wait for it for ever; it
also puts the name of the machine into that of the file.
"""

from __future__ import annotations

import struct
import time
from pathlib import Path

from tensorboardX.proto.event_pb2 import Event, SessionLog
from tensorboardX.proto.summary_pb2 import Summary
from tensorboardX.record_writer import masked_crc32c

from decima.rl.errors import RunError
from decima.rl.loop import IterationReport, LoopSettings, LoopState, Observer
from traces.files.writing import append, make_folder

_FILE_VERSION = "brain.Event:2"


class TensorBoardLog(Observer):
    """Observer that writes each figure under its name, one event file for each session."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: Path

    def started(self, state: LoopState, settings: LoopSettings) -> None:
        """Begin a file; iterations that a killed session had gone beyond `state` are hidden."""
        make_folder(self._folder, RunError)
        # TensorBoard reads files in the order of their names.
        session = len(list(self._folder.glob("events.out.tfevents.*")))
        self._file = self._folder / f"events.out.tfevents.{session:010d}"
        self._write(Event(wall_time=time.time(), file_version=_FILE_VERSION))
        self._write(
            Event(
                wall_time=time.time(),
                step=state.next_iteration,
                session_log=SessionLog(status=SessionLog.START),
            )
        )

    def iterated(self, report: IterationReport) -> None:
        """Write the figures of one iteration; RunError if the file cannot be written."""
        metrics = {**report.metrics, "elapsed_s": report.state.elapsed_s}
        summary = Summary(
            value=[Summary.Value(tag=name, simple_value=value) for name, value in metrics.items()]
        )
        self._write(Event(wall_time=time.time(), step=report.iteration, summary=summary))

    def _write(self, event: Event) -> None:
        append(self._file, framed(event.SerializeToString()), RunError)


def framed(data: bytes) -> bytes:
    """One TFRecord: length, checksum of the length, data, checksum of the data."""
    length = struct.pack("<Q", len(data))
    checksum, of_length = (struct.pack("<I", masked_crc32c(part)) for part in (data, length))
    return length + of_length + data + checksum
