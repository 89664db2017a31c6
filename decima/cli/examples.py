"""An example for the help of every command, in one place to read them side by side."""

from __future__ import annotations

from collections.abc import Mapping

import click

EXAMPLES: Mapping[str, str] = {
    "": "decima evaluate --policies strict_fair,decima --jobs 50 --sequences 3",
    "traces": "decima traces info tpch",
    "traces list": "decima traces list",
    "traces info": "decima traces info tpch --json",
    "traces validate": "decima traces validate mine.parquet",
    "traces show": "decima traces show tpch sf1/q5 -o q5.svg",
    "traces sample-logs": "decima traces sample-logs logs",
    "traces import": "decima traces import spark event-logs/ -o mine.parquet",
    "traces import spark": "decima traces import spark event-logs/ -o mine.parquet",
    "traces import decima-sim": "decima traces import decima-sim spark_env/tpch -o tpch.parquet",
    "traces import alibaba": "decima traces import alibaba batch_task.csv -o alibaba.parquet",
    "traces import csv": "decima traces import csv jobs.csv -o mine.parquet",
    "traces import json": "decima traces import json jobs.json -o mine.parquet",
    "traces import wfcommons": "decima traces import wfcommons flow.json --group -o flow.parquet",
    "evaluate": "decima evaluate --policies strict_fair,tuned_srw,decima --interarrival 18",
    "tune": "decima tune --policy tuned_srw --trace mine.parquet -o tuned.json",
    "fit-rule": "decima fit-rule --trace mine.parquet --minutes 30 --workers 2 -o rule.json",
    "train": "decima train --trace mine.parquet --executors 16 --protocol session --out runs/mine",
    "explain": "decima explain --model decima --decision 200",
    "replay": "decima replay event-logs/",
    "report": "decima report results.json --timeline tasks.parquet -o report.html",
    "whatif": "decima whatif event-logs/ --executors 16",
    "prepare": "decima prepare",
    "spark": "decima spark demo",
    "spark jar": "decima spark jar -o decima-spark.jar",
    "spark replay": "decima spark replay --policies strict_fair,decima --jobs 20",
    "spark demo": "decima spark demo --jobs 10 --slots 4",
    "spark review": "decima spark review decisions.jsonl --draw slots.svg",
    "coordinate": "decima coordinate --slots 8 --policy decima --secret-file secret",
    "cluster": "decima cluster pack -o decima.tar.gz",
    "cluster pack": "decima cluster pack -o decima.tar.gz --python /usr/bin/python3.11",
}
"""examples by the words after `decima`"""


def add_examples(command: click.Command, words: str = "") -> None:
    """End the help of `command`, and of all below it, with its example."""
    command.epilog = f"\b\nExample:\n  {EXAMPLES[words]}"
    if isinstance(command, click.Group):
        for name, below in command.commands.items():
            add_examples(below, f"{words} {name}".strip())
