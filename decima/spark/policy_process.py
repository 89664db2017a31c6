"""`PolicyProcess`: a learned policy in a process of its own; the driver never loads torch."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence

from decima.spark import wire
from decima.spark.errors import PolicyFaultError
from spark_sim import Action
from spark_sim.tables import State
from traces.arrays import TraceArrays

START_S = 300.0
"""a process that is not ready after so long never will be: kernels may have to be compiled"""
_END_S = 1.0


class PolicyProcess:
    """Supervisor of the policy's process: it starts, queries, kills and restarts the process."""

    def __init__(self, name: str) -> None:
        """Args:
        name: of a learned policy (`decima.policy_names.is_learned`).
        """
        self.name = name
        self.refused: str | None = None
        """why there will never be such a process"""
        self.starts = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._end: socket.socket | None = None
        self.is_started = False
        """set once the process can answer"""
        self._started = 0.0
        self._graphs: TraceArrays | None = None
        self._lock = threading.Lock()
        self._is_closed = False

    @property
    def pid(self) -> int | None:
        """Process id, or None if not running."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Begin to load the policy; returns at once. Does nothing once it is closed."""
        # A late thread may come here after another closed this object: the process would never end.
        with self._lock:
            if not self._is_closed:
                self._start()

    def _start(self) -> None:
        self._end, theirs = socket.socketpair()
        with theirs:
            # -P: do not import from the current folder.
            command = [sys.executable, "-P", "-m", "decima.spark.policy_server", self.name]
            self._process = subprocess.Popen(  # noqa: S603 - this package's module
                [*command, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env=os.environ | {"PYTHONPATH": import_path()},
                start_new_session=True,  # Ctrl-C is for the driver: when that ends, so does this
            )
        self.starts += 1
        self._started = time.monotonic()
        self.is_started = False
        self._graphs = None

    def is_ready(self, wait_s: float = 0.0) -> bool:
        """Return whether the process can answer.

        Args:
            wait_s: wait for it at most so long.

        Raises:
            PolicyFaultError: it has ended, or takes too long to start; another one is started,
                unless the policy was refused.
        """
        if self.is_started:
            return True
        reply = self._receive(time.monotonic() + wait_s, must=False)
        if reply == wire.READY:
            self.is_started = True
        elif reply is not None and reply.startswith(wire.REFUSED):
            self.refused = reply[1:].decode(errors="replace")
            self.close()
            raise PolicyFaultError(self.refused)
        elif time.monotonic() - self._started > START_S:
            raise self._replaced(f"its process was not ready after {START_S:g} s")
        return self.is_started

    def decide(self, state: State, given: Sequence[Action], ends: float) -> list[Action]:
        """All actions of one round.

        Args:
            state: the tables as they were when the round began.
            given: actions of the round that were decided before.
            ends: of `time.monotonic`, until when to wait.

        Raises:
            PolicyFaultError: no answer until then, an error, or the process has ended.
        """
        assert self._end is not None  # noqa: S101 - `start` comes first
        is_new = state.trace is not self._graphs
        try:
            self._end.settimeout(max(1e-3, ends - time.monotonic()))
            wire.send(self._end, wire.request_bytes(state, given, with_graphs=is_new))
        except TimeoutError as error:
            raise self._replaced("its process took no question in time") from error
        except OSError as error:
            raise self._replaced(self._ended()) from error
        reply = self._receive(ends, must=True)
        assert reply is not None  # noqa: S101 - `must`
        self._graphs = state.trace
        if reply.startswith(wire.FAULT):
            raise PolicyFaultError(reply[1:].decode(errors="replace"))
        with contextlib.suppress(wire.WireError):
            if reply.startswith(wire.ACTIONS):
                return wire.read_actions(reply[1:])
        raise self._replaced(f"its process answered {reply[:20]!r}")

    def close(self) -> None:
        """End the process, and start none any more; twice does no harm."""
        with self._lock:
            self._is_closed = True
        if self._end is not None:
            self._end.close()
            self._end = None
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=_END_S if self.is_started else 0.0)
            self._kill()

    # --- failing ---------------------------------------------------------------------------------

    def _receive(self, ends: float, *, must: bool) -> bytes | None:
        """The next reply; None if there is none yet and there need not be."""
        assert self._end is not None  # noqa: S101 - `start` comes first
        try:
            reply = wire.receive(self._end, ends)
        except TimeoutError as error:
            if must:
                raise self._replaced("no answer in time") from error
            return None
        except (ValueError, OSError) as error:  # OSError: closed by another thread
            raise self._replaced(str(error)) from error
        if reply is None:
            raise self._replaced(self._ended())
        return reply

    def _ended(self) -> str:
        """Describe how the process ended."""
        assert self._process is not None  # noqa: S101 - `start` comes first
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=_END_S)
        return f"its process ended (exit code {self._process.returncode})"

    def _replaced(self, fault: str) -> PolicyFaultError:
        """Kill the process and start another; what to raise."""
        if self._end is not None:
            self._end.close()
        self._kill()
        self.start()
        return PolicyFaultError(fault)

    def _kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()


def import_path() -> str:
    """Return the module path of this process, for the other process."""
    return os.pathsep.join(entry or os.getcwd() for entry in sys.path)
