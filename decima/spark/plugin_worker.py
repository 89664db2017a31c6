"""Process that the plugin starts where `python` is needed: `python -m decima.spark.plugin_worker`.

The plugin inside the driver's JVM (`decima/spark/java/plugin/Worker.java`) listens on loopback and
passes the port and a secret in the environment.
"""

from __future__ import annotations

import logging
import os
import sys
from contextlib import closing
from pathlib import Path

from decima.spark.answering import Answers, Connection, PoliciesByName
from decima.spark.auto import AUTO, Auto, AutoSettings, EvaluatorProcess
from decima.spark.loading import read_parameters, ready_policy
from decima.spark.priors import read_priors
from decima.spark.settings import AttachError
from traces import load_trace

PORT, SECRET = "DECIMA_PLUGIN_PORT", "DECIMA_PLUGIN_SECRET"
_SETTINGS = {"policy", "parameters", "priors", "is_shadow", "auto_every_s", "order", "decides"}
"""from the plugin"""


def serve(connection: Connection) -> None:
    """Answer until the plugin is gone; ValueError (one line) if a setting cannot be used."""
    settings = connection.settings
    missing = sorted(_SETTINGS - settings.keys())
    if missing:
        raise AttachError(f"reply of the plugin: lacks {', '.join(missing)}")
    policy = str(settings["policy"])
    tuned = None if settings["parameters"] is None else Path(settings["parameters"])
    parameters = read_parameters(policy, tuned)
    trace = None if settings["priors"] is None else load_trace(settings["priors"])
    priors = read_priors(trace)
    policies, auto = {}, None
    if policy == AUTO:
        auto = Auto(
            AutoSettings(every_s=settings["auto_every_s"]),
            settings["order"],
            trace,
            EvaluatorProcess(),
            acts=not settings["is_shadow"],
        )
    elif settings["decides"]:
        policies = {policy: ready_policy(policy, parameters)}
    with closing(Answers(PoliciesByName(policies), auto)) as answers:
        connection.ready(None if priors is None else priors.message())
        connection.serve(answers)


def main() -> None:
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
