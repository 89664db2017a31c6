"""`CoordinatorLog`: the decision log of a coordinator, in the form of a session's.

`decima spark review` reads it. A row of a plan has the executors of each application as its slots,
and its targets as limits; rows of jobs are those that the drivers report.
"""

from __future__ import annotations

import itertools
import json
import logging
import os
import time
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from decima.spark.coordinator.planning import Coordinator, Division
from decima.spark.decision_log import MODE_APPLICATIONS, DecisionLogFiles
from decima.spark.settings import LOG_FORMAT, LOG_VERSION, AttachError
from traces.files.errors import reason
from traces.files.private import open_private_log

LOG = logging.getLogger("decima.spark")


class CoordinatorLog:
    """Log in a few files of bounded size, for their owner alone."""

    def __init__(
        self, files: DecisionLogFiles, policy: str, parameters: Mapping[str, float]
    ) -> None:
        """Begin a log, earlier files put aside; AttachError if it cannot be written."""
        self._files = files
        header = {
            "format": LOG_FORMAT,
            "version": LOG_VERSION,
            "run": str(uuid.uuid4()),
            "mode": MODE_APPLICATIONS,
            "policy": policy,
            "parameters": dict(parameters),
            "ran": policy,
        }
        self._header = _line(header)
        self._size = 0
        self._number: int | None = None
        try:
            self._open()
            if self._size > 0:
                self._turn()
            self._put(self._header)
        except OSError as error:
            raise AttachError(f"decision log {files.path}: {reason(error)}") from error

    def plan(self, division: Division, coordinator: Coordinator, time_ms: int) -> None:
        sets = []
        for number, (key, application) in enumerate(coordinator.applications.items()):
            stages = application.stages
            if stages is not None:
                done = int(stages.finished.sum())
                running = int((stages.launched - stages.finished).sum())
                sets.append([number, 0, key, int(stages.num_tasks.sum()), done, running, False])
        self._write(
            {
                "plan": division.number,
                "time_ms": time_ms,
                "applied_ms": [time_ms, int(1000 * time.time())],
                "slots": coordinator.settings.slots,
                "by": division.by,
                "fault": division.fault,
                "sets": sets,
                "chosen": list(dict.fromkeys(division.chosen)),
                "limits": division.targets,
                "moving_delay_ms": round(coordinator.delay.ms),
            }
        )

    def jobs(self, key: str, name: str, rows: Iterable[Mapping[str, Any]]) -> None:
        for row in rows:
            self._write(
                {**row, "job": f"{key} {row.get('job')}", "name": f"{name}: {row.get('name')}"}
            )

    def close(self) -> None:
        if self._number is not None:
            os.close(self._number)
            self._number = None

    def _open(self) -> None:
        self._number = open_private_log(self._files.path)
        self._size = os.fstat(self._number).st_size

    def _turn(self) -> None:
        """Put the files aside, each one place further, and begin a new one."""
        self.close()
        for old, new in reversed(list(itertools.pairwise(self._files.all))):
            if old.exists():
                old.replace(new)
        self._open()

    def _write(self, row: Mapping[str, Any]) -> None:
        if self._number is None:
            return
        line = _line(row)
        try:
            if self._size + len(line) > self._files.max_bytes and self._size > len(self._header):
                self._turn()
                self._put(self._header)
            self._put(line)
        except OSError as error:
            LOG.warning("decision log %s ends here: %s", self._files.path, reason(error))
            self.close()

    def _put(self, line: bytes) -> None:
        if self._number is not None:
            os.write(self._number, line)
            self._size += len(line)


def _line(row: Mapping[str, Any]) -> bytes:
    return json.dumps(row).encode() + b"\n"
