"""`Scheduler`: a policy that is attached to a live session."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import closing
from dataclasses import replace
from typing import Any, Self

from decima.spark.answering import Answers, Connection
from decima.spark.dashboard import serve as serve_dashboard
from decima.spark.jvm import message
from decima.spark.loading import LOADING_S
from decima.spark.settings import AttachError
from decima.spark.status import SchedulerStatus, read_status

LOG = logging.getLogger("decima.spark")

_LOOK_S = 0.02
_FAR = 2.0
"""a model trained for so many times fewer or more slots is at a loss"""


class Scheduler:
    """A policy attached to one SparkContext; made by `attach`. The JVM plans."""

    def __init__(
        self,
        attachment: Any,
        policy: str,
        loading: Future[Answers] | None,
        trained_slots: tuple[int, int] | None = None,
    ) -> None:
        """`attachment` is not started; without `loading` the JVM asks nothing of Python."""
        self.policy = policy
        self._attachment = attachment
        self._loading = loading
        self._trained_slots = trained_slots
        self._connection: Connection | None = None
        self._lock = threading.Lock()
        self._stops: list[Callable[[], None]] = []
        self._last: SchedulerStatus | None = None
        self._is_detached = False
        self.dashboard_url: str | None = None
        """of the live page, while it is served"""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.detach()

    @property
    def is_attached(self) -> bool:
        return self.status().is_attached

    @property
    def mode(self) -> str:
        """Mode in which it acts; `exact`, `soft` or `shadow`."""
        return self.status().mode

    def start(self) -> None:
        """Attach and begin to decide; AttachError if another scheduler is attached."""
        from py4j.protocol import Py4JJavaError

        try:
            self._attachment.start()
        except Py4JJavaError as error:
            raise AttachError(message(error)) from error
        if self._loading is not None:
            place = self._attachment.port(), self._attachment.secret(), self._loading
            name = "decima-answers"
            threading.Thread(target=self._answer, args=place, name=name, daemon=True).start()
        LOG.info("attached: policy %s, mode %s", self.policy, self.mode)

    def serve_dashboard(self, port: int) -> None:
        """Serve the live page until `detach`; AttachError if the port is taken."""
        self.dashboard_url, stop = serve_dashboard(self.status, port)
        self._stops.append(stop)
        LOG.info("live page: %s", self.dashboard_url)

    def detach(self) -> None:
        """Give Spark its own objects back; jobs that run go on. Twice does no harm."""
        from py4j.protocol import Py4JError

        self.status()  # the last one, for those who ask later
        try:
            self._attachment.detach()
        except (Py4JError, OSError) as error:
            LOG.debug("detach: %s", error)  # the JVM is gone
        with self._lock:
            self._is_detached = True
            if self._connection is not None:
                self._connection.close()
        while self._stops:
            self._stops.pop()()
        self.dashboard_url = None

    def status(self) -> SchedulerStatus:
        """Return a picture of now; of the last moment, if the JVM does not answer any more."""
        from py4j.protocol import Py4JError

        try:
            self._last = replace(read_status(self._attachment.status()), policy=self.policy)
            self._warn_of_size(self._last.slots)
        except (Py4JError, OSError) as error:
            if self._last is None:
                raise AttachError(f"the JVM does not answer: {error}") from error
            self._last = replace(self._last, is_attached=False)
        return self._last

    def wait_until_ready(self, wait_s: float) -> None:
        """Wait until the policy can be asked; AttachError after `wait_s`, or if it was refused."""
        end_s = time.monotonic() + wait_s
        while not (status := self.status()).is_ready:
            if status.ended_because is not None:
                raise AttachError(status.ended_because)
            if time.monotonic() > end_s:
                raise AttachError(f"{self.policy}: not ready after {wait_s:g} s")
            time.sleep(_LOOK_S)

    def _warn_of_size(self, slots: int) -> None:
        """Warn once where a model meets a cluster of another size: it may do worse than FAIR."""
        if self._trained_slots is None or slots == 0:
            return
        least, most = self._trained_slots
        self._trained_slots = None
        if not least / _FAR <= slots <= most * _FAR:
            LOG.warning(
                "%s was trained for %d to %d slots and this session has %d: train it for these, or "
                "attach es_rule",
                self.policy,
                least,
                most,
                slots,
            )

    def _answer(self, port: int, secret: str, loading: Future[Answers]) -> None:
        """Answer the JVM's questions, for as long as it asks, in a thread."""
        try:
            connection = Connection(port, secret)
            with self._lock:
                self._connection = connection
                if self._is_detached:
                    connection.close()
            try:
                answers = loading.result(timeout=LOADING_S)
            except TimeoutError:
                connection.refuse(f"not loaded after {LOADING_S:g} s")
                return
            except Exception as error:  # noqa: BLE001 - any: the policy cannot be used
                connection.refuse(loading_fault(error))
                return
            with closing(answers):
                connection.ready()
                connection.serve(answers)
        except OSError as error:
            LOG.debug("the connection to the planner: %s", error)
        except Exception:  # any: the JVM then detaches by itself
            LOG.exception("the answers to the planner end")
        finally:
            if self._connection is not None:
                self._connection.close()


def loading_fault(error: BaseException) -> str:
    """Describe in a line why a policy could not be loaded."""
    is_ours = isinstance(error, ValueError)  # as all errors of this package are
    return str(error) if is_ours else f"{type(error).__name__}: {error}"
