"""Trainings of a study: the run folders they are recorded in, and the models they leave."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from decima.rl.errors import StudyError
from decima.rl.loop import Learner, Observer, TrainingResult
from decima.rl.run_folder import RunFolder, read_run
from decima.rl.study.models import MODEL, C, Model, ModelKind, N
from traces.files.reading import read_bytes
from traces.files.settings import build
from traces.files.writing import make_folder, write_whole

Kinds = Sequence[ModelKind[Any, Any]]
AnyConfig = TypeVar("AnyConfig")


def read_config(
    path: Path, recorded: Mapping[str, Any], kinds: Kinds
) -> tuple[ModelKind[Any, Any], Any]:
    """Return what a training makes and its configuration, as `ModelKind.new_folder` records them.

    Raises StudyError if it is of another kind of training; `path` is for the message.
    """
    for kind in kinds:
        settings = recorded if kind.name is None else recorded.get("config")
        if recorded.get("kind") == kind.name and isinstance(settings, dict):
            return kind, build(kind.config, settings, StudyError)
    raise StudyError(f"{path}: no training of {kinds[0].package}")


@dataclass(frozen=True)
class Trainer(Generic[AnyConfig]):
    """Trainings of a package, from a run folder to a model file."""

    kinds: Kinds
    learner: Callable[[AnyConfig, RunFolder], Learner]
    """makes the learner of a run, as it is before the first iteration"""

    def config_of(self, folder: RunFolder) -> AnyConfig:
        """Return the configuration of a run; StudyError if it is of another kind of training."""
        config: AnyConfig = read_config(folder.path, folder.config, self.kinds)[1]
        return config

    def run(
        self,
        folder: RunFolder,
        *,
        time_limit_s: float | None = None,
        observers: Sequence[Observer] = (),
    ) -> TrainingResult:
        """Train by the folder's configuration; see `ModelKind.train`."""
        kind, config = read_config(folder.path, folder.config, self.kinds)
        return kind.train(self.learner(config, folder), folder, config, time_limit_s, observers)


class Planned(Protocol):
    """A training of a study."""

    @property
    def name(self) -> str:
        """Name of the run folder and of the model."""
        ...

    @property
    def needs(self) -> tuple[Planned | None, ...]:
        """Trainings whose models `new_run` takes after the configuration; None for none."""
        ...

    def config(self) -> Any:
        """Return the settings of the training."""
        ...


def open_planned(training: Planned, runs: Path, new_run: Callable[..., RunFolder]) -> RunFolder:
    """Return the run folder of a training below `runs`, made by `new_run` if it is not there.

    Raises StudyError if a model that it begins with is missing.
    """
    path = runs / training.name
    if (path / "config.json").is_file():
        return RunFolder.open(path)
    models = [None if need is None else runs / need.name / MODEL for need in training.needs]
    for model in models:
        if model is not None and not model.is_file():
            raise StudyError(
                f"{training.name} begins with {model}, which is not there: train it first"
            )
    return new_run(path, training.config(), *models)


@dataclass(frozen=True)
class Study:
    """The trainings behind the figures of a package."""

    kinds: Kinds
    """what is trained"""
    trainings: Callable[[], Sequence[Planned]]
    """all, in an order in which each comes after those that it needs"""
    also: Callable[[Path, Path, Sequence[str]], None] | None = None
    """copies what else `gather` needs from a folder of runs to another, of the names gathered"""

    def gather(self, runs: Path, out: Path) -> list[str]:
        """Copy the models of runs, finished or not, into a folder; return the names of the runs.

        Raises StudyError if there is none, or if one was trained otherwise or cannot be copied.
        """
        planned = self.trainings()
        finished = [training for training in planned if (runs / training.name / MODEL).is_file()]
        if not finished:
            raise StudyError(f"{runs}: holds no run of the study, such as {planned[0].name}")
        for training in finished:
            path = runs / training.name
            if read_config(path, read_run(path).config, self.kinds)[1] != training.config():
                raise StudyError(f"{path}: was not trained with the settings of the study")
        make_folder(out, StudyError)
        names = [training.name for training in finished]
        for name in names:
            content = read_bytes(runs / name / MODEL, StudyError)
            write_whole(out / f"{name}.safetensors", content, StudyError)
        if self.also is not None:
            self.also(runs, out, names)
        return names


class ModelFolder:
    """Base of the models of a study in a folder; None takes those beside the package's code.

    Raises StudyError if none are beside the code, as in an installed wheel.
    """

    package: ClassVar[str]

    def __init__(self, folder: Path | None = None) -> None:
        package = self.package
        self.path = Path(str(files(package) / "data")) if folder is None else folder
        if folder is None and not any(self.path.glob("*.safetensors")):
            raise StudyError(
                f"the trained models of {package} are not in its wheel: give --models "
                f"{package}/data of the unpacked source distribution "
                f"(decima-scheduler-VERSION.tar.gz), or train them: {package} study"
            )

    def fingerprint(self) -> str:
        """Return sixteen hex digits over all files of the folder."""
        digest = sha256()
        for path in sorted(self.path.iterdir()):
            if path.is_file():
                content = sha256(read_bytes(path, StudyError)).hexdigest()
                digest.update(f"{path.name} {content}\n".encode())
        return digest.hexdigest()[:16]

    def loaded(self, kind: ModelKind[N, C], trainings: Sequence[Planned]) -> list[Model[N, C]]:
        """Return the models of those trainings that are there."""
        paths = [self.path / f"{training.name}.safetensors" for training in trainings]
        return [kind.load(path) for path in paths if path.is_file()]
