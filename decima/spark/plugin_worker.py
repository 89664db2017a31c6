"""Process that the plugin starts where `python` is needed: `python -m decima.spark.plugin_worker`.

The plugin inside the driver's JVM (`decima/spark/java/plugin/Worker.java`) listens on loopback and
passes the port and a secret in the environment.
"""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

from decima.spark.answering import Answers, Connection, PoliciesByName
from decima.spark.auto import AUTO, Auto, AutoSettings
from decima.spark.errors import AttachError
from decima.spark.evaluator_process import EvaluatorProcess
from decima.spark.inputs import read_parameters, read_priors
from decima.spark.loading import ready_policy
from traces import load_trace

PORT, SECRET = "DECIMA_PLUGIN_PORT", "DECIMA_PLUGIN_SECRET"
_SETTINGS = {"policy", "parameters", "priors", "is_shadow", "auto_every_s", "order", "decides"}
"""from the plugin"""


def serve(connection: Connection) -> None:
    """Answer until the plugin is gone.

    Raises:
        ValueError: (one line) a setting cannot be used.
    """
    given = connection.settings
    missing = sorted(_SETTINGS - given.keys())
    if missing:
        raise AttachError(f"reply of the plugin: lacks {', '.join(missing)}")
    policy = str(given["policy"])
    parameters = None if given["parameters"] is None else Path(given["parameters"])
    values = read_parameters(policy, parameters)
    trace = None if given["priors"] is None else load_trace(given["priors"])
    priors = read_priors(trace)
    auto = None
    if policy == AUTO:
        settings = AutoSettings(every_s=given["auto_every_s"])
        acts = not given["is_shadow"]
        auto = Auto(settings, given["order"], trace, EvaluatorProcess(), acts=acts)
    known = {policy: ready_policy(policy, values)} if given["decides"] and auto is None else {}
    answers = Answers(PoliciesByName(known), auto)
    connection.ready(None if priors is None else priors.message())
    try:
        connection.serve(answers)
    finally:
        answers.close()


def main() -> None:
    """Connect to the plugin that started this process, and serve it."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="decima: %(message)s")
    # Child processes need not know the secret.
    connection = Connection(int(os.environ[PORT]), os.environ.pop(SECRET))
    try:
        serve(connection)
    except ValueError as error:  # all errors of this package are: one line with the reason
        connection.refuse(str(error))


if __name__ == "__main__":
    try:
        main()
    except (AttachError, ConnectionError) as error:
        sys.exit(f"decima: {error}")
