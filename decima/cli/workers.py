"""Options that choose where a command computes, and the pool of workers that they ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple

import click

from decima.cli.options import added
from decima.custom_policies import is_custom
from decima.errors import ConfigError
from decima.objectives import is_own
from decima.rl.option_types import INPUT, Whole
from decima.rl.parallel.errors import WorkerLostError
from decima.rl.parallel.local import HERE, LocalPool
from decima.rl.parallel.pool import WorkerPool
from spark_sim.compiled.progress import announce

_MOST_WORKERS = 4_096


class Where(NamedTuple):
    """Values of the options of `worker_options`."""

    workers: int  # processes on this machine
    cluster: str | None  # URL of a Spark master; None: this machine alone
    archive: Path | None  # Python and this package for the executors of `cluster`


def worker_options(workers: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add `--workers`, with this help, and a cluster's options, as one argument `where`."""
    options = (
        click.option(
            "--workers", type=Whole(1, _MOST_WORKERS), default=1, show_default=True, help=workers
        ),
        click.option(
            "--cluster",
            metavar="URL",
            help="Compute on this Spark cluster, with the same results: spark://HOST:7077, yarn, "
            "k8s://..., or local-cluster[2,1,1024] to try.",
        ),
        click.option(
            "--cluster-archive",
            type=INPUT,
            help="Python and this package for the executors, by `decima cluster pack`; without it "
            "every host needs both.",
        ),
    )

    def add(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def with_where(
            workers: int, cluster: str | None, cluster_archive: Path | None, **others: Any
        ) -> None:
            command(where=Where(workers, cluster, cluster_archive), **others)

        return added(with_where, *options)

    return add


@contextmanager
def resumable(how: Callable[[], str | None]) -> Iterator[None]:
    """Add to the error of a worker that was lost how to resume; None: nothing was kept."""
    try:
        yield
    except WorkerLostError as error:
        words = how()
        raise WorkerLostError(str(error) if words is None else f"{error}; {words}") from error


@contextmanager
def open_pool(where: Where, name: str) -> Iterator[WorkerPool]:
    """Open the workers that compute all of a command; they end with the block."""
    if where.cluster is not None and where.workers != 1:
        raise ConfigError("--workers counts processes on this machine: it contradicts --cluster")
    with open_machine(where) if where.cluster is None else open_cluster(where, name) as pool:
        if where.cluster is None and pool is not HERE:
            announce()
        yield pool


def refuse_own_code(where: Where, objective: str, policies: Iterable[str] = ()) -> None:
    """Refuse (ConfigError) policies and objectives in a user's own code on a cluster."""
    code = [name for name in policies if is_custom(name)]
    code += [objective] if is_own(objective) else []
    if code and where.cluster is not None:
        raise ConfigError(
            f"{code[0]!r} is code of your own, which the executors of --cluster lack: --workers "
            "runs it on this machine"
        )


@contextmanager
def open_machine(where: Where) -> Iterator[WorkerPool]:
    if where.cluster is None and where.archive is not None:
        raise ConfigError("--cluster-archive is for executors: it goes with --cluster")
    with HERE if where.workers == 1 else LocalPool(where.workers) as pool:
        yield pool


@contextmanager
def open_cluster(where: Where, name: str) -> Iterator[WorkerPool]:
    """Connect to the executors of `--cluster`, in a Spark application called `name`."""
    # Only a cluster needs pyspark.
    from decima.fingerprint import fingerprint
    from decima.rl.parallel.greeting import check_executors
    from decima.rl.parallel.session import open_session
    from decima.rl.parallel.spark import SparkPool

    announce()
    context = open_session(str(where.cluster), name=name, archive=where.archive)
    try:
        click.echo("checking the executors; a new host compiles first, for some minutes", err=True)
        check_executors(context, fingerprint)
        with SparkPool(context) as pool:
            yield pool
    finally:
        context.stop()
