"""The `decima` command."""

from __future__ import annotations

import click

from decima.cli.cluster import cluster
from decima.cli.errors import OneLineErrors
from decima.cli.evaluate import evaluate
from decima.cli.examples import add_examples
from decima.cli.explain import explain
from decima.cli.fit_rule import fit_rule
from decima.cli.prepare import prepare
from decima.cli.probe import probe
from decima.cli.replay import replay
from decima.cli.report import report
from decima.cli.spark import spark
from decima.cli.traces import traces
from decima.cli.train import train
from decima.cli.tune import tune
from decima.cli.whatif import whatif


@click.group(cls=OneLineErrors)
@click.version_option(package_name="decima-scheduler")
def main() -> None:
    """Schedulers for Spark-style DAG jobs: import logs, simulate, compare, tune, train."""


main.add_command(traces)
main.add_command(evaluate)
main.add_command(tune)
main.add_command(fit_rule)
main.add_command(train)
main.add_command(explain)
main.add_command(replay)
main.add_command(report)
main.add_command(whatif)
main.add_command(probe)
main.add_command(spark)
main.add_command(cluster)
main.add_command(prepare)
add_examples(main)

if __name__ == "__main__":
    main()
