"""Process that the plugin starts where `python` is set: `python -m decima.spark.plugin_worker`.

The plugin inside the driver's JVM (`decima/spark/java/plugin/Worker.java`) listens on loopback and
passes the port and a secret in the environment. This process connects, sends the secret, gets the
settings, and then are what `attach` is in a Python driver: a `Scheduler` whose `Control` is over
there.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import sys
import threading
from pathlib import Path
from typing import Any

from decima.policy_names import is_learned
from decima.spark import frames
from decima.spark.attaching import (
    auto_switch,
    policy_for,
    prepare,
    spark_order,
    trained_slots_of,
)
from decima.spark.auto import AUTO, AutoSettings
from decima.spark.decision_log import log_opener
from decima.spark.errors import AttachError
from decima.spark.inputs import read_parameters, read_priors
from decima.spark.jobs import LiveJobs
from decima.spark.loading import LOADING_S
from decima.spark.planning import Guard, Plan, Planner
from decima.spark.reports import SessionReport, parse_report
from decima.spark.scheduler import Scheduler
from traces import load_trace
from traces.files.reading import parse_json
from traces.loopback import ADDRESS

PORT, SECRET = "DECIMA_PLUGIN_PORT", "DECIMA_PLUGIN_SECRET"
_SETTINGS = {"policy", "mode", "parameters", "priors", "starve_s", "idle_s", "fair"}
_SETTINGS |= {"decision_log", "auto_every_s", "run"}
"""from the plugin"""
_LOOK_S = 0.2


class RemoteControl:
    """The plugin's end, as `Jvm` is to a driver; every method is one round trip."""

    def __init__(self, end: socket.socket, secret: str) -> None:
        """Args:
            end: connected to the plugin.
            secret: from the plugin.

        Raises:
            ConnectionError: it refused the connection.
        """
        self._end = end
        self._lock = threading.Lock()
        self.is_gone = False
        self.settings = self._ask({"secret": secret})

    def attach(self) -> None:
        """Do nothing: the plugin has attached before it started this process."""

    def detach(self) -> None:
        """The plugin continues without this process and notices its end."""

    def wait(self, timeout_ms: int) -> SessionReport:
        """Return what has happened, at the latest after `timeout_ms`."""
        report = parse_report(self._ask({"call": "wait", "timeout_ms": timeout_ms}))
        self.is_gone = self.is_gone or not report.attached
        return report

    def apply(self, plan: Plan, number: int) -> None:
        """Put a plan in force at once."""
        self._ask({"call": "apply", "plan": plan.message(number)})

    def leave_to_spark(self, is_left: bool) -> None:
        """Spark's own order from now on, or plans again."""
        self._ask({"call": "leave_to_spark", "is_left": is_left})

    def counters(self) -> dict[str, Any]:
        """Return the JVM's counters."""
        return self._ask({"call": "counters"})

    def refuse(self, reason: str) -> None:
        """The policy cannot be used, now or later."""
        self._ask({"call": "refused", "reason": reason})

    def is_stopped(self) -> bool:
        """Return whether the plugin and its driver have stopped."""
        return self.is_gone

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        try:
            with self._lock:
                frames.send(self._end, json.dumps(request).encode())
                reply = frames.receive(self._end)
        except OSError:
            reply = None
        if reply is None:
            self.is_gone = True
            raise ConnectionError("the plugin is gone")
        found = parse_json(reply, "reply of the plugin", AttachError)
        if not isinstance(found, dict):
            raise AttachError(f"reply of the plugin: {found!r:.60} is no JSON object")
        return found


def make_scheduler(control: RemoteControl) -> tuple[Scheduler, Planner]:
    """A scheduler as the plugin's settings want it; nothing has started.

    Raises:
        AttachError, PolicyError, ConfigError, ModelError, TraceError: a setting is not to be used.
    """
    given = control.settings
    missing = sorted(_SETTINGS - given.keys())
    if missing:
        raise AttachError(f"reply of the plugin: lacks {', '.join(missing)}")
    policy, mode = str(given["policy"]), str(given["mode"])
    parameters = None if given["parameters"] is None else Path(given["parameters"])
    values = read_parameters(policy, parameters)
    priors = None if given["priors"] is None else load_trace(given["priors"])
    chosen, name = policy_for(policy, values)
    guard = Guard(starve_s=given["starve_s"], idle_s=given["idle_s"])
    order = spark_order(is_fair=given["fair"])
    ran = name if mode != "shadow" else order
    log = log_opener(given["decision_log"], mode, name, values, ran, given["run"])
    planner = Planner(chosen, guard)
    settings = AutoSettings(every_s=given["auto_every_s"]) if policy == AUTO else None
    stands_back = control if mode != "shadow" else None
    switch = auto_switch(policy, settings, order, priors, planner, stands_back)
    scheduler = Scheduler(control, planner, LiveJobs(read_priors(priors)), mode="exact",
                          policy=name, open_log=log,
                          trained_slots=trained_slots_of(policy), switch=switch)  # fmt: skip
    return scheduler, planner


def serve(control: RemoteControl) -> None:
    """Decide until the plugin is gone, or the policy has failed for good."""
    scheduler: Scheduler | None = None
    try:
        scheduler, planner = make_scheduler(control)
        policy = str(control.settings["policy"])
        prepare(planner, policy, LOADING_S if is_learned(policy) else None)
        scheduler.start()
    except ValueError as error:  # all errors of this package are: one line with the reason
        if scheduler is not None:
            scheduler.detach()
        control.refuse(str(error))
        return
    stop = threading.Event()
    while scheduler.is_attached:
        stop.wait(_LOOK_S)
    scheduler.detach()


def main() -> None:
    """Connect to the plugin that started this process, and serve it."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="decima: %(message)s")
    with socket.create_connection((ADDRESS, int(os.environ[PORT]))) as end:
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # Child processes need not know it.
        control = RemoteControl(end, os.environ.pop(SECRET))
        try:
            serve(control)
        except ConnectionError as error:
            raise AttachError(str(error)) from error


if __name__ == "__main__":
    try:
        main()
    except AttachError as error:
        sys.exit(f"decima: {error}")
