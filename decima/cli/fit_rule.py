"""`decima fit-rule`: fit the weights of the scoring rule to workloads and save them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import click

from decima.cli.console import progress_bar, stdout
from decima.cli.options import (
    OBJECTIVE,
    build_config,
    config_options,
    output_option,
    training_options,
)
from decima.cli.workers import Where, open_pool, refuse_own_code, resumable, worker_options
from decima.errors import ConfigError
from decima.evaluation.config import EvaluationConfig, read_settings
from decima.objectives import objective_named
from decima.rl.option_types import INPUT, MINUTES, Whole, note_inputs
from decima.training.rule_fit.config import (
    ALONE,
    PARTS,
    REFERENCE,
    WITH_CLASSES,
    RuleFitConfig,
    Start,
)
from decima.training.rule_fit.history import History, read_history
from decima.training.tuning import write_tuned
from spark_sim.compiled.progress import announce
from traces.numbers import S_PER_MINUTE

_DEFAULT_MINUTES = 30.0


@click.command("fit-rule")
@training_options
@click.option(
    "--settings",
    "settings_file",
    type=INPUT,
    help="TOML file of several settings to fit to, in place of trace, cluster and arrivals here.",
)
@config_options(
    RuleFitConfig,
    start="Weights that the search begins with: those like tuned_srw, or those that ship.",
)
@OBJECTIVE
@click.option(
    "--only",
    multiple=True,
    type=click.Choice(PARTS),
    metavar="PART",
    help="Change only what reads this feature, this part of the rule (bias, gate, score, "
    "gate_bias) or one hidden unit (unit_0, ...); repeat it. Few weights take fewer generations.",
)
@click.option("--generations", type=Whole(1), help="Stop after this many generations.")
@click.option(
    "--minutes",
    type=MINUTES,
    help="Stop after this time; --resume starts a new count.  [default: 30, or --generations]",
)
@config_options(
    RuleFitConfig,
    pairs="Pairs of opposite candidates in a generation.",
    sigma="Width of the first generation.",
    validation="Sequences of each setting that choose the result; as many more check it.",
)
@worker_options("Processes.")
@output_option("JSON file to write; `decima evaluate --tuned FILE` reads it.")
@click.option(
    "--resume",
    type=INPUT,
    help="State of a fit that was stopped (OUTPUT with the ending .state.json); give the same "
    "options again.",
)
def fit_rule(
    settings_file: Path | None,
    start: Start,
    objective: str,
    only: tuple[str, ...],
    generations: int | None,
    minutes: float | None,
    pairs: int,
    sigma: float,
    validation: int,
    where: Where,
    output: Path,
    resume: Path | None,
    **options: Any,
) -> None:
    """Fit the scoring rule to a workload: `es_rule`, or `es_classes` where there are --classes.

    Evolution strategies over its weights, as `decima train` has over a network's. Each generation
    plays fresh training sequences, which no evaluation uses; all its candidates play the same ones.
    The score is the average JCT relative to strict fair's. Every ten generations the mean is scored
    on validation sequences. The best mean is saved if it also beats the shipped weights on held-out
    sequences, else the shipped ones. The state is written after each generation, so a fit can be
    resumed exactly where it stopped.
    """
    from decima.training.rule_fit.fit import Budget
    from decima.training.rule_fit.fit import fit_rule as search

    config = RuleFitConfig(settings=_settings(settings_file, options), seed=options["seed"],
                           sequences=options["sequences"], start=start, only=only,
                           objective=objective,
                           pairs=pairs, sigma=sigma, validation=validation)  # fmt: skip
    if generations is None and minutes is None:
        minutes = _DEFAULT_MINUTES
    budget = Budget(generations, minutes)
    refuse_own_code(where, objective)
    state = output.with_suffix(".state.json") if resume is None else resume
    if resume is None and state.exists():
        raise ConfigError(f"{state}: holds a fit; continue with --resume {state}, or remove it")
    history = None if resume is None else read_history(resume, config)
    begun_s = 0.0 if history is None else history.elapsed_s
    announce()
    total = minutes if generations is None else generations
    with (
        resumable(lambda: f"--resume {state} continues the fit" if state.exists() else None),
        open_pool(where, "decima fit-rule") as pool,
        progress_bar("start", None if total is None else math.ceil(total)) as (bar, task),
    ):

        def show(history: History) -> None:
            done = len(history.generations)
            spent_minutes = (history.elapsed_s - begun_s) / S_PER_MINUTE
            completed = spent_minutes if generations is None else done
            bar.update(task, completed=completed, description=_words(history))
            if done % config.validate_every == 0:
                bar.console.print(f"generation {done}: {_words(history)}", soft_wrap=True)

        fitted = search(config, budget, pool=pool, state=state, history=history, progress=show)
    write_tuned(fitted, output)
    title = objective_named(config.objective).title
    stdout().print(
        f"{config.policy}: {title} {fitted.score:.3f} of {REFERENCE}'s in "
        f"validation ({fitted.start_score:.3f} at the start) on {config.validation} sequences of "
        f"each mean gap, the mean after generation {fitted.best_generation} of "
        f"{fitted.generations}; state in {state}",
        soft_wrap=True,
    )
    stdout().print(
        f"On {len(fitted.found_logs)} held-out sequences: {fitted.held_back_score:.3f}, with the "
        f"shipped weights {fitted.shipped_score:.3f} ({fitted.held_back.words('+.1f', ' %')}). "
        f"Saved: {'these' if fitted.is_better else 'the shipped weights'}.",
        soft_wrap=True,
    )


def _settings(path: Path | None, options: dict[str, Any]) -> tuple[EvaluationConfig, ...]:
    if path is not None:
        settings = read_settings(path)
        note_inputs(
            "--settings",
            (name for setting in settings for name in (setting.trace, setting.arrivals)),
        )
        return settings
    gaps = options["interarrival_s"]
    twice = [gap for gap in gaps if gaps.count(gap) > 1]
    if twice:
        raise ConfigError(f"interarrival {twice[0]} s is given twice")
    policy = WITH_CLASSES if options["classes"] else ALONE
    settings = tuple(
        build_config({**options, "interarrival_s": gap}, (REFERENCE, policy)) for gap in gaps
    )
    if len(settings) > 1 and settings[0].arrivals == "batch":
        raise ConfigError("a batch has no arrivals: several --interarrival contradict it")
    return settings


def _words(history: History) -> str:
    validated = [row.validation for row in history.generations if row.validation is not None]
    best = min([history.start_score, *validated])
    last = history.generations[-1] if history.generations else None
    if last is None:
        return f"{best:.4f} of {REFERENCE}'s"
    mean = sum(last.scores) / len(last.scores)
    compared = "" if last.validation is None else f", validated {last.validation:.4f}"
    return f"{mean:.4f} of {REFERENCE}'s{compared}, best {best:.4f}, moved by {last.distance:.2f}"
