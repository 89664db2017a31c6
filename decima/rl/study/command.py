"""Commands of a package that has a study: train, study, gather, reproduce.

Such a package has modules by these names: `session` (`new_run`, `run_training`, `references`),
`study` (`STUDY`, `Models`) and `figures` (`FIGURES`, `SEED`, `Bench`). They are loaded when a
command runs, as torch and numba take a second.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from decima.rl.command import Refused, refuse_beside_resume
from decima.rl.entry import INTERRUPTED
from decima.rl.errors import StudyError
from decima.rl.option_types import FOLDER, INPUT_FOLDER, MINUTES, OUTPUT, SEED, Whole
from traces.files.names import suggestion

if TYPE_CHECKING:
    from decima.rl.loop import StopReason, TrainingResult
    from decima.rl.run_folder import RunFolder


out_option = click.option("--out", required=True, type=FOLDER, help="Run folder.")
resume_option = click.option("--resume", is_flag=True, help="Go on with the run in that folder.")
seed_option = click.option("--seed", type=SEED, default=0, show_default=True)
output_option = click.option("-o", "--output", required=True, type=OUTPUT)


def minutes_option(words: str) -> Callable[[Any], Any]:
    """Option `--minutes`, which these words describe."""
    return click.option("--minutes", type=MINUTES, help=words)


def inputs_option(name: str, count: int = 100) -> Callable[[Any], Any]:
    """Return the option for the number of inputs to play."""
    return click.option(f"--{name}", default=count, show_default=True, type=Whole(2, 1_000_000))


def cluster_options(
    make: Callable[..., Any], options: Mapping[str, Any], *names: str
) -> Callable[[Any], Any]:
    """Add the options `names` to a command, which gets one `config`, made of their values."""

    def add(command: Any) -> Any:
        @wraps(command)
        def configured(**values: Any) -> Any:
            config = make(**{name: values.pop(name) for name in names})
            return command(config=config, **values)

        for name in reversed(names):
            configured = options[name](configured)
        return configured

    return add


class StudyWords(NamedTuple):
    """Help texts and figures of a study's commands."""

    study: str
    gather: str
    reproduce: str
    figures: Mapping[str, float]
    """names, those of `figures.FIGURES`, and about how many CPU seconds each takes"""
    example: str
    """name of a training"""
    inputs: str
    """what every figure is measured on, as an option"""
    inputs_key: str
    """and in the figures' files"""
    usual: int = 100
    """number of inputs that `reproduce` measures on"""


def add_study_commands(main: click.Group, package: str, words: StudyWords) -> None:
    """Add `study`, `gather` and `reproduce` to the commands of a package."""

    @main.command(help=words.study)
    @click.option("--out", required=True, type=FOLDER, help="A folder for the run folders.")
    @minutes_option("Of each training.")
    @click.option("--only", multiple=True, help=f"Name of a training, as {words.example}.")
    def study(out: Path, minutes: float | None, only: tuple[str, ...]) -> None:
        from decima.rl.loop import StopReason
        from decima.rl.study.trainings import open_planned

        # Those that are named, or all of it, until one is asked to stop.
        planned = _module(package, "study").STUDY.trainings()
        trainings = {training.name: training for training in planned}
        unknown = [name for name in only if name not in trainings]
        if unknown:
            near = suggestion(unknown[0], trainings)
            known = ", ".join(trainings)
            raise StudyError(f"unknown training {unknown[0]!r:.60}{near}; there are {known}")
        for name in only or trainings:
            click.echo(name, err=True)
            folder = open_planned(trainings[name], out, _module(package, "session").new_run)
            if run_and_tell(package, folder, minutes) is StopReason.SIGNAL:
                return

    @main.command(help=words.gather)
    @click.argument("runs", type=INPUT_FOLDER)
    @click.option("--out", required=True, type=FOLDER, help="Folder of models.")
    def gather(runs: Path, out: Path) -> None:
        names = _module(package, "study").STUDY.gather(runs, out)
        click.echo(f"{len(names)} models: {', '.join(names)}")

    @main.command(help=words.reproduce)
    @click.option("--out", required=True, type=FOLDER, help="Folder for JSON, SVG and PNG.")
    @click.option(
        "--only", multiple=True, type=click.Choice(list(words.figures)), help="Default: all."
    )
    @inputs_option(words.inputs, words.usual)
    @click.option("--seed", type=SEED, help="Of the inputs; default: the docs'.")
    @click.option("--models", type=INPUT_FOLDER, help="Models other than those in the package.")
    @click.option("--force", is_flag=True, help="Measure again what the folder has.")
    def reproduce(
        out: Path,
        only: tuple[str, ...],
        seed: int | None,
        models: Path | None,
        force: bool,
        **inputs: int,
    ) -> None:
        from decima.rl.study.figures import Measurement, to_measure, write_figures

        figures, count = _module(package, "figures"), inputs[words.inputs]
        trained, drawn_from = _module(package, "study").Models(models), seed
        if drawn_from is None:
            drawn_from = figures.SEED
        bench = figures.Bench(trained, count, drawn_from)
        usual = {words.inputs_key: count, "seed": drawn_from, "models": trained.fingerprint()}
        measurement = Measurement(
            {name: seconds * count / words.usual for name, seconds in words.figures.items()},
            usual,
            lambda name: {words.inputs_key: count, **figures.FIGURES[name][0](bench)},
            {name: draw for name, (_, draw) in figures.FIGURES.items()},
        )
        names = list(only or words.figures)
        write_figures(names if force else to_measure(names, measurement, out), measurement, out)


def _module(package: str, name: str) -> Any:
    return import_module(f"{package}.{name}")


def train_in(
    package: str, out: Path, resume: bool, minutes: float | None, begin: Callable[[], RunFolder]
) -> None:
    """Train in a new run folder, or in the one that `resume` goes on with."""
    from decima.rl.run_folder import RunFolder

    if resume:
        refuse_beside_resume("out", "minutes")
    run_and_tell(package, RunFolder.open(out) if resume else begin(), minutes)


def check_picture(path: Path) -> None:
    """Refuse a picture whose name does not end in .png."""
    if path.suffix != ".png":
        raise Refused(f"{path}: pictures are PNG, so the name must end in .png")


def run_and_tell(package: str, opened: RunFolder, minutes: float | None) -> StopReason:
    """Train in a run folder, close it, print how the training ended, and return why.

    The package's `references` are compared with the best validation, and the first of them with
    each validation on the way.
    """
    # rich and torch take a while to load, which other commands need not wait for.
    from decima.rl.loop import StopReason
    from decima.rl.progress import RichProgress, compared, duration_text
    from decima.rl.study.models import MODEL

    with opened as folder:
        click.echo(f"training in {folder.path}", err=True)
        session = _module(package, "session")
        others = session.references(folder)
        progress = RichProgress(reference=others[0] if others else None)
        limit_s = None if minutes is None else minutes * 60
        result: TrainingResult = session.run_training(
            folder, time_limit_s=limit_s, observers=(progress,)
        )
        state = result.state
        if state.next_iteration == 0:
            click.echo(
                f"{result.reason.value} before the first iteration had ended, so there is no "
                "model; --resume begins it again"
            )
        else:
            click.echo(
                f"{result.reason.value} after {state.next_iteration} iterations, "
                f"{duration_text(state.elapsed_s)} of training; best validation "
                f"{compared(state.best_score, others)}; model: {folder.path / MODEL}"
            )
    if result.reason is StopReason.SIGNAL:
        click.get_current_context().exit(INTERRUPTED)
    return result.reason
