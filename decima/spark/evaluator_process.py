"""`EvaluatorProcess`: starts `decima.spark.candidates`, which simulates and ends; the driver keeps
nothing of it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

from decima.spark.worker import Worker
from traces.estimates import Estimates
from traces.files.reading import parse_json

PATIENCE_S = 1_800.0
"""kernels may have to be compiled, at the lowest priority"""


class Question(NamedTuple):
    """Question for `decima.spark.candidates`."""

    slots: int
    order: str
    """Spark's own, by the name that the simulator has: fifo or spark_fair"""
    ran: str
    """what was in force, by name"""
    ran_since_ms: int
    """since the epoch; jobs that arrived before are not compared"""
    candidates: Sequence[str]
    estimates: Estimates
    """what policies know of durations in this session"""
    jobs: Sequence[Mapping[str, Any]]
    """lines of the decision log (`LiveJob.java`), by arrival"""
    is_timed: bool
    """the jobs came at their times; False: only the jobs are known"""
    parameters: Mapping[str, Mapping[str, float]]
    """of candidates, where they are not those that the package ships"""


class EvaluatorError(ValueError):
    """The process gave no verdict; the message is one line."""


class EvaluatorProcess:
    """Runner that answers one question at a time, each in a new process."""

    def __init__(self) -> None:
        self._worker = Worker("decima-compare")
        self._process: subprocess.Popen[bytes] | None = None
        self._is_closed = False

    def ask(self, asked: Question) -> Future[dict[str, Any]]:
        """Start answering; the future gives `Verdict.as_json` or raises `EvaluatorError`."""
        return self._worker.submit(lambda: self._answer(asked))

    def close(self) -> None:
        """End the process, if there is one; twice does no harm."""
        self._is_closed = True
        self._worker.close()
        if self._process is not None:
            self._process.kill()

    def _answer(self, asked: Question) -> dict[str, Any]:
        if self._is_closed:
            raise EvaluatorError("closed")
        process = subprocess.Popen(  # noqa: S603 - this package's module
            [sys.executable, "-P", "-m", "decima.spark.candidates", str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": import_path()},
            start_new_session=True,  # Ctrl-C is for the driver
        )
        self._process = process
        with process:  # which closes its pipes, whatever comes
            try:
                if self._is_closed:  # while it started, when there was nothing to kill yet
                    raise EvaluatorError("closed")
                answer, faults = process.communicate(
                    json.dumps(asked._asdict()).encode(), PATIENCE_S
                )
            except subprocess.TimeoutExpired as error:
                raise EvaluatorError(f"no verdict after {PATIENCE_S:g} s") from error
            finally:
                process.kill()
        if process.returncode != 0:
            lines = faults.decode(errors="replace").strip().splitlines()
            raise EvaluatorError(lines[-1] if lines else f"exit code {process.returncode}")
        verdict = parse_json(answer, "verdict", EvaluatorError)
        if not isinstance(verdict, dict):
            raise EvaluatorError(f"verdict: {verdict!r:.60} is no JSON object")
        return verdict


def import_path() -> str:
    """Return the module path of this process, for the other process."""
    return os.pathsep.join(entry or os.getcwd() for entry in sys.path)
