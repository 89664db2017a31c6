"""`decima explain`: the reasons of a learned policy's decision."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from decima.cli.console import stdout
from decima.cli.options import JSON, build_config, workload_options
from decima.errors import ConfigError
from decima.policy_names import SHIPPED_MODEL, is_learned
from decima.rl.option_types import POLICIES, SECONDS, Whole
from spark_sim.compiled.progress import announce
from traces.files.writing import write_json


@click.command()
@click.option(
    "--model",
    type=POLICIES,
    default=SHIPPED_MODEL,
    show_default=True,
    help='A model file of `decima train`, or the one in the package; with ":sampled" after it '
    "actions are drawn instead of taking the likeliest.",
)
@workload_options
@click.option("--sequence", type=Whole(0, 1_000_000), default=0, show_default=True)
@click.option(
    "--decision",
    type=Whole(1),
    help="Number of the decision, from 1. Default: the one with the most open stages among the "
    "first 500.",
)
@click.option("--time", "time_s", type=SECONDS, help="The first from this second.")
@click.option(
    "--columns", is_flag=True, help="Also weigh every single input column of the network."
)
@JSON
def explain(
    model: str,
    sequence: int,
    decision: int | None,
    time_s: float | None,
    columns: bool,
    json_path: Path | None,
    **options: Any,
) -> None:
    """Explain one decision of a learned policy.

    Plays a sequence up to the decision. Shows the probability of each stage, and of each
    parallelism limit of the one taken. Then shows the reasons: inputs that change the probability
    of the choice by a tenth or more when they are replaced by their mean over all choices.

    All choices of a scheduling event are planned at the first of them. A later choice is therefore
    explained by the observation at the first.
    """
    if decision is not None and time_s is not None:
        raise ConfigError("--decision and --time both name a decision; give one of them")
    config = build_config(options, (model,))
    if not is_learned(model):
        raise ConfigError(
            f"model {model!r}: not {SHIPPED_MODEL}, nor a file ending in .safetensors"
        )
    announce()
    # numba takes a second to load, which a refused setting need not wait for.
    from decima.evaluation.runner import Workload
    from decima.learned import load
    from decima.report.explain.decision import (
        at_number,
        at_time,
        busiest,
        explain_decision,
        moments,
    )
    from decima.report.explain.words import in_words, lines_of

    network = load(model)
    workload = Workload.of(config)
    if time_s is not None:
        moment = at_time(moments(workload, config, model, sequence), time_s)
    else:
        if decision is None:
            decision = busiest(moments(workload, config, model, sequence))
        moment = at_number(moments(workload, config, model, sequence), decision)
    explanation = explain_decision(network, workload, moment, with_columns=columns)
    for part in lines_of(explanation):
        stdout().print(part)
    if json_path is not None:
        about = {"model": model, "sequence": sequence, "words": in_words(explanation)}
        write_json(json_path, about | explanation.to_json())


# A decision is of one sequence.
explain.params = [option for option in explain.params if option.name != "sequences"]
