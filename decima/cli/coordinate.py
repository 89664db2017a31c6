"""`decima coordinate`: the executors of one cluster, divided among its Spark applications."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from decima.cli.console import say
from decima.cli.options import TUNED, config_options, read_all_tuned
from decima.errors import ConfigError
from decima.rl.option_types import INPUT, POLICIES, OutputFile, Whole
from decima.spark.coordinator.settings import CoordinatorSettings
from decima.spark.decision_log import DecisionLogFiles
from decima.spark.settings import AttachError
from spark_sim.cluster import MAX_EXECUTORS
from traces.files.private import read_secret
from traces.files.tls import tls_of

if TYPE_CHECKING:
    import ssl

    from decima.spark.coordinator.server import CoordinatorServer

T = TypeVar("T")

_PORTS = 65_535


def numbers(option: str, values: tuple[str, ...], kind: Callable[[str], T]) -> dict[str, T]:
    """Return the numbers of repeated "GROUP=NUMBER"; ConfigError if one is none."""
    by_group = {}
    for text in values:
        group, equals, number = text.rpartition("=")
        if not equals:
            raise ConfigError(f"{option} {text!r}: GROUP=VALUE is needed, such as user:ann=4")
        try:
            by_group[group] = kind(number)
        except ValueError as error:
            raise ConfigError(f"{option} {text}: {number!r} is no such number") from error
    return by_group


@click.command()
@click.option("--listen", default="127.0.0.1:7087", show_default=True, help="HOST:PORT.")
@click.option(
    "--slots", type=Whole(1, MAX_EXECUTORS), required=True, help="Executors of the cluster."
)
@click.option(
    "--policy",
    type=POLICIES,
    default="strict_fair",
    show_default=True,
    help="A heuristic, `decima`, or a model file.",
)
@TUNED
@click.option(
    "--secret-file", type=INPUT, required=True, help="Secret that drivers must have, mode 0600."
)
@click.option("--tls-certificate", type=INPUT, help="PEM file; needed beyond loopback.")
@click.option("--tls-key", type=INPUT, help="Its key, if not in the same file.")
@click.option(
    "--cap",
    "caps",
    multiple=True,
    help="Most executors: user=N or queue=N (each), user:NAME=N, queue:NAME=N; may be repeated.",
)
@click.option(
    "--weight",
    "weights",
    multiple=True,
    help="Factor on the weight of applications: user:NAME=W, queue:NAME=W; may be repeated.",
)
@config_options(
    CoordinatorSettings,
    shares_of="What weighs the same; by default jobs, with strict_fair applications.",
    moving_delay_s="Seconds to start an executor, until that is measured.",
    wait_s="Seconds without an executor after which an application gets one of another's.",
    idle_s="Seconds for which an application that has run out of work keeps its executors.",
    silence_s="Seconds after which a silent driver has died.",
)
@click.option(
    "--decision-log",
    "log",
    type=OutputFile(beside=lambda path: DecisionLogFiles(path).all[1:]),
    help="For `decima spark review`.",
)
@click.option("--status-port", type=Whole(0, _PORTS), help="Live page and /metrics, on loopback.")
def coordinate(
    listen: str,
    slots: int,
    policy: str,
    tuned: tuple[Path, ...],
    secret_file: Path,
    tls_certificate: Path | None,
    tls_key: Path | None,
    caps: tuple[str, ...],
    weights: tuple[str, ...],
    log: Path | None,
    status_port: int | None,
    **others: Any,
) -> None:
    """Divide the executors of one cluster among its Spark applications.

    Each driver needs the plugin with spark.decima.coordinator=HOST:PORT. It reports its stages, and
    follows the number of executors that the policy gives it. Ends with ctrl-C; drivers then keep
    what they hold for a while, and return to their own settings.
    """
    from decima.spark.coordinator.log import CoordinatorLog
    from decima.spark.coordinator.server import CoordinatorServer
    from decima.spark.loading import ready_policy
    from spark_sim.compiled.progress import announce

    host, colon, port_text = listen.rpartition(":")
    if not colon or not host or not port_text.isdecimal() or int(port_text) > _PORTS:
        raise ConfigError(f"--listen {listen!r}: HOST:PORT is needed, such as 127.0.0.1:7087")
    host, port = host.strip("[]"), int(port_text)
    tls = tls_of(host, tls_certificate, tls_key, ConfigError)
    parameters = read_all_tuned(tuned).get(policy)
    settings = CoordinatorSettings(
        slots,
        policy,
        parameters,
        caps=numbers("--cap", caps, int),
        weights=numbers("--weight", weights, float),
        **others,
    )
    secret = read_secret(secret_file, AttachError)
    announce()
    policy_for = ready_policy(policy, parameters)
    lines = None if log is None else CoordinatorLog(DecisionLogFiles(log), policy, parameters or {})
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
    asyncio.run(
        _serve(CoordinatorServer(settings, policy_for, secret, lines), host, port, tls, status_port)
    )


async def _serve(
    server: CoordinatorServer,
    host: str,
    port: int,
    tls: ssl.SSLContext | None,
    status_port: int | None,
) -> None:
    from decima.spark.coordinator.server import WORDS
    from decima.spark.dashboard import serve

    bound_port = await server.start(host, port, tls)
    settings = server.coordinator.settings
    say(f"listening on {host}:{bound_port}: {settings.slots} executors, policy {settings.policy}")
    stop = None
    try:
        if status_port is not None:
            page, stop = serve(server.status, status_port, metrics=server.metrics, words=WORDS)
            say(f"status: {page}")
        await server.run()
    finally:
        server.close()
        if stop is not None:
            stop()
