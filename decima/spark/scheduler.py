"""`Scheduler`: a policy that is attached to a live session."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from decima.spark.answering import Answers, Connection
from decima.spark.dashboard import serve as serve_dashboard
from decima.spark.errors import AttachError
from decima.spark.jvm import message
from decima.spark.status import SchedulerStatus, read_status

LOG = logging.getLogger("decima.spark")

_FAR = 2.0
"""a model trained for so many times fewer or more slots is at a loss"""


class Scheduler:
    """A policy attached to one SparkContext; made by `attach`. The JVM plans."""

    def __init__(self, attachment: Any, policy: str, loads: Callable[[], Answers] | None) -> None:
        """Args:
        attachment: an object of `Attachment.java` that is not started.
        policy: by the name that the caller gave.
        loads: returns the answers to what the JVM asks of Python; None: it asks nothing.
        """
        self.policy = policy
        self._attachment = attachment
        self._loads = loads
        self._connection: Connection | None = None
        self._stops: list[Callable[[], None]] = []
        self._last: SchedulerStatus | None = None
        self._is_detached = False
        self.dashboard_url: str | None = None
        """of the live page, while it is served"""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.detach()

    @property
    def is_attached(self) -> bool:
        return self.status().is_attached

    @property
    def mode(self) -> str:
        """Mode in which it acts; `exact`, `soft` or `shadow`."""
        return self.status().mode

    def start(self) -> None:
        """Attach and begin to decide.

        Raises:
            AttachError: another scheduler is attached, or the decision log cannot be written.
        """
        from py4j.protocol import Py4JJavaError

        try:
            self._attachment.start()
        except Py4JJavaError as error:
            raise AttachError(message(error)) from error
        if self._loads is not None:
            thread = threading.Thread(target=self._answer, name="decima-answers", daemon=True)
            thread.start()
        LOG.info("attached: policy %s, mode %s", self.policy, self.mode)

    def serve_dashboard(self, port: int) -> None:
        """Serve the live page until `detach`, at `dashboard_url`.

        Raises:
            AttachError: the port is taken.
        """
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
        except (Py4JError, OSError) as error:
            if self._last is None:
                raise AttachError(f"the JVM does not answer: {error}") from error
            self._last = replace(self._last, is_attached=False)
        return self._last

    def warn_of_size(self, trained: tuple[int, int] | None) -> None:
        """Warn where a model meets a cluster of another size: it may do worse than FAIR.

        Args:
            trained: the least and most slots that it was trained for; None if they are not known.
        """
        slots = self.status().slots
        if trained is None or slots == 0:
            return
        least, most = trained
        if not least / _FAR <= slots <= most * _FAR:
            LOG.warning(
                "%s was trained for %d to %d slots and this session has %d: train it for these, or "
                "attach es_rule",
                self.policy,
                least,
                most,
                slots,
            )

    # --- the thread ------------------------------------------------------------------------------

    def _answer(self) -> None:
        """Answer the JVM's questions, for as long as it asks."""
        assert self._loads is not None  # noqa: S101 - else there is no thread
        try:
            connection = Connection(self._attachment.port(), self._attachment.secret())
            self._connection = connection
            try:
                answers = self._loads()
            except Exception as error:  # noqa: BLE001 - any: the policy cannot be used
                is_ours = isinstance(error, ValueError)  # as all errors of this package are
                connection.refuse(str(error) if is_ours else f"{type(error).__name__}: {error}")
                return
            connection.ready()
            connection.serve(answers)
        except OSError as error:
            LOG.debug("the connection to the planner: %s", error)
