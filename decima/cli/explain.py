"""`decima explain`: the reasons of a learned policy's decision."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from decima.cli.console import stdout
from decima.cli.options import WRITTEN, build_config, check_outputs, workload_options
from decima.errors import ConfigError
from decima.evaluation.config import EvaluationConfig
from decima.policy_names import SHIPPED_MODEL, is_learned, model_path
from spark_sim.compiled.progress import announce
from traces.files.writing import write_json

if TYPE_CHECKING:
    from decima.report.explain.decision import Explanation


@click.command()
@click.option(
    "--model",
    default=SHIPPED_MODEL,
    show_default=True,
    help='A model file of `decima train`, or the one in the package; with ":sampled" after it '
    "actions are drawn instead of taking the likeliest.",
)
@workload_options
@click.option("--sequence", type=click.IntRange(min=0), default=0, show_default=True)
@click.option(
    "--decision",
    type=click.IntRange(min=1),
    help="Number of the decision, from 1. Default: the one with the most open stages among the "
    "first 500.",
)
@click.option("--time", "time_s", type=click.FloatRange(min=0), help="The first from this second.")
@click.option(
    "--columns", is_flag=True, help="Also weigh every single input column of the network."
)
@click.option("--json", "json_path", type=WRITTEN, help="Write everything as JSON.")
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
    if time_s is not None and not math.isfinite(time_s):
        raise ConfigError(f"--time {time_s} is no moment")
    config = build_config(options, (model,))
    if not is_learned(model):
        raise ConfigError(
            f"model {model!r}: not {SHIPPED_MODEL}, nor a file ending in .safetensors"
        )
    check_outputs(json_path)
    announce()
    found = _explanation(config, model, sequence, decision, time_s, with_columns=columns)
    from decima.report.explain.report import lines_of
    from decima.report.explain.words import in_words

    for part in lines_of(found):
        stdout().print(part)
    if json_path is not None:
        about = {"model": model, "sequence": sequence, "words": in_words(found)}
        write_json(json_path, about | found.to_json())


# A decision is of one sequence.
explain.params = [option for option in explain.params if option.name != "sequences"]


def _explanation(
    config: EvaluationConfig,
    model: str,
    sequence: int,
    decision: int | None,
    time_s: float | None,
    *,
    with_columns: bool,
) -> Explanation:
    from decima.agent.model import shared_model
    from decima.evaluation.runner import Workload
    from decima.report.explain.decision import explain_decision
    from decima.report.explain.moments import at_number, at_time, busiest, moments

    network = shared_model(model_path(model)).network
    workload = Workload.of(config)
    run = moments(workload, config, model, sequence)
    if time_s is not None:
        moment = at_time(run, time_s)
    else:
        number = busiest(run) if decision is None else decision
        moment = at_number(moments(workload, config, model, sequence), number)
    return explain_decision(network, workload, moment, with_columns=with_columns)
