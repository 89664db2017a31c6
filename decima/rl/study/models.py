"""Networks of a study: files of weights, the run folders they are trained in, shipped models.

A file holds weights as 16-bit numbers, with the configuration of their training in its header.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from decima.rl.checkpoint import load_tensors, object_among, save_tensors
from decima.rl.learner import Learner, LoopSettings, Observer
from decima.rl.loop import TrainingResult, train
from decima.rl.model_files import MAX_PARAMETERS, check_count, check_weights, header_settings
from decima.rl.run_folder import RunFolder, read_run
from decima.rl.tensorboard import TensorBoardLog
from traces.files.reading import read_bytes
from traces.files.writing import make_folder, write_whole

MODEL, INITIAL = "model.safetensors", "initial.safetensors"


class TrainingSettings(Protocol):
    """Settings in every configuration of a training."""

    @property
    def iterations(self) -> int: ...

    @property
    def validate_every(self) -> int: ...

    def to_json(self) -> dict[str, Any]: ...


N = TypeVar("N", bound=nn.Module)
C = TypeVar("C", bound=TrainingSettings)


class Model(NamedTuple, Generic[N, C]):
    """Content of a file of weights."""

    network: N
    config: C
    """of the training"""
    card: dict[str, Any]
    """how the training went"""


@dataclass(frozen=True)
class ModelKind(Generic[N, C]):
    """One kind of network, and the header that marks its files."""

    package: str
    error: type[ValueError]
    header: Mapping[str, object]
    """`format`, and `kind` where the package has several"""
    config: type[C]
    make: Callable[[C], N]
    """makes the network of a configuration, which has learned nothing"""
    most: int = MAX_PARAMETERS

    def check_size(self, config: C) -> None:
        """Refuse a network that is too large, before anything of it is allocated.

        Raises:
            ValueError: (`error`) a file of it could not be read.
        """
        _outline(lambda: self.make(config), self.error, self.most)

    def save(
        self, path: Path, config: C, weights: Mapping[str, Tensor], card: Mapping[str, object]
    ) -> None:
        """Write weights with the configuration of their training.

        Raises:
            RunError: the file cannot be written.
        """
        facts = {**self.header, "config": config.to_json(), "card": dict(card)}
        tensors = {n: one.half() if one.is_floating_point() else one for n, one in weights.items()}
        save_tensors(path, tensors, facts)

    def load(self, path: Path) -> Model[N, C]:
        """Return what `save` wrote.

        Raises:
            ValueError: (`error`) the file is no such model, belongs to another format, or its
                weights are not those of the network that its header names, or not finite.
            RunError: it cannot be read, or its header lacks something.
        """
        weights, facts = load_tensors(path, 8 * self.most)
        if facts.get("format") != self.header["format"]:
            raise self.error(f"{path}: no model of {self.package}, or of another version of it")
        found, needed = facts.get("kind"), self.header.get("kind")
        if found != needed:
            raise self.error(f"{path}: of kind {found!r:.40}, where {needed!r} is needed")
        stored = object_among(facts, "config", path)
        config = header_settings(path, self.config, stored, self.error)
        card = object_among(facts, "card", path)
        try:
            shapes = _outline(lambda: self.make(config), self.error, self.most)
        except self.error as fault:
            raise self.error(f"{path}: its header names an impossible network: {fault}") from fault
        arrays = {name: one.numpy() for name, one in weights.items()}
        check_weights(path, _halved(shapes), arrays, self.error)
        network = self.make(config)
        network.load_state_dict(
            {n: one.float() if one.is_floating_point() else one for n, one in weights.items()}
        )
        return Model(network, config, card)

    def train(
        self,
        learner: Learner,
        folder: RunFolder,
        config: C,
        time_limit_s: float | None = None,
        observers: Sequence[Observer] = (),
    ) -> TrainingResult:
        """Train from the folder's checkpoint if there is one, then save the model as `MODEL`.

        Saves the best weights, or without a validation the newest; nothing if no iteration was
        done. How long it took is in the folder's metrics, not in the model: the same training gives
        the same bytes.

        Args:
            learner: as newly made from the configuration of the run.
            folder: the run folder, open.
            config: of the run.
            time_limit_s: stop after so long.
            observers: called after each iteration, after TensorBoard's log.

        Raises:
            ValueError: (one line) the configuration or the checkpoint breaks a rule.
            NotFiniteError: a number of the training is not finite.
        """
        log = TensorBoardLog(folder.path / "tensorboard")
        settings = LoopSettings(config.iterations, config.validate_every, time_limit_s=time_limit_s)
        result = train(learner, folder, settings, (log, *observers))
        state = result.state
        if state.next_iteration == 0:
            return result
        has_best = folder.best_file.exists()
        weights = load_tensors(folder.best_file)[0] if has_best else learner.model_state()
        card = {
            "iterations": state.next_iteration,
            "best_iteration": state.best_iteration,
            "best_score": state.best_score,
        }
        self.save(folder.path / MODEL, config, weights, card)
        return result


def new_folder(
    path: Path, recorded: Mapping[str, object], copies: Mapping[str, Path], error: type[ValueError]
) -> RunFolder:
    """Make a run folder, with copies of the models by the names of their files there.

    Raises:
        RunError: the folder holds something, or cannot be written.
        ValueError: (`error`) a model cannot be read or written.
    """
    contents = {name: read_bytes(model, error) for name, model in copies.items()}
    folder = RunFolder.create(path, recorded)
    for name, content in contents.items():
        write_whole(path / name, content, error)
    return folder


class Planned(Protocol):
    """A training of a study."""

    @property
    def name(self) -> str:
        """Name of the run folder and of the model."""
        ...

    def config(self) -> Any:
        """Return the settings of the training."""
        ...


T = TypeVar("T", bound=Planned)


def open_planned(
    one: T,
    runs: Path,
    needs: Sequence[T | None],
    new_run: Callable[..., RunFolder],
    error: type[ValueError],
) -> RunFolder:
    """Return the run folder of a training, made by `new_run` if it is not there.

    Args:
        one: the training.
        runs: folder of all run folders.
        needs: trainings whose models `new_run` takes after the configuration; None for none.
        new_run: of the package.
        error: raised where a model is needed and not there yet.

    Raises:
        ValueError: (`error`) so it is.
        RunError: the folder is in use, or cannot be written.
    """
    path = runs / one.name
    if (path / "config.json").is_file():
        return RunFolder.open(path)
    models = [None if need is None else runs / need.name / MODEL for need in needs]
    for model in models:
        if model is not None and not model.is_file():
            raise error(f"{one.name} begins with {model}, which is not there: train it first")
    return new_run(path, one.config(), *models)


def gather_models(
    runs: Path,
    out: Path,
    planned: Sequence[T],
    is_of: Callable[[T, dict[str, Any]], bool],
    error: type[ValueError],
) -> list[str]:
    """Copy the models of a study's runs, finished or not, into a folder.

    Args:
        runs: a folder of run folders, named as the study names them.
        out: where to; made if it is not there.
        planned: the trainings of the study.
        is_of: whether a recorded configuration is that of a training.
        error: raised where there is none, one was trained otherwise, or one cannot be copied.

    Returns:
        the names of the runs that had a model.

    Raises:
        ValueError: (`error`) so it is.
    """
    found = [one for one in planned if (runs / one.name / MODEL).is_file()]
    if not found:
        raise error(f"{runs}: holds no run of the study, such as {planned[0].name}")
    for one in found:
        if not is_of(one, read_run(runs / one.name).config):
            raise error(f"{runs / one.name}: was not trained with the settings of the study")
    make_folder(out, error)
    for one in found:
        content = read_bytes(runs / one.name / MODEL, error)
        write_whole(out / f"{one.name}.safetensors", content, error)
    return [one.name for one in found]


class ModelFolder:
    """The models of a study in a folder.

    Args:
        package: whose.
        error: raised where none are there, as in an installed wheel.
        folder: where; None for those beside the package's code.
    """

    def __init__(self, package: str, error: type[ValueError], folder: Path | None = None) -> None:
        self.path = Path(str(files(package) / "data")) if folder is None else folder
        if folder is None and not any(self.path.glob("*.safetensors")):
            raise error(
                f"the trained models of {package} are not in its wheel: give --models "
                f"{package}/data of the unpacked source distribution "
                f"(decima-scheduler-VERSION.tar.gz), or train them: {package} study"
            )

    def loaded(self, kind: ModelKind[N, C], trainings: Sequence[Planned]) -> list[Model[N, C]]:
        """Return the models of those trainings that are there."""
        paths = [self.path / f"{one.name}.safetensors" for one in trainings]
        return [kind.load(path) for path in paths if path.is_file()]


def _outline(make: Callable[[], N], error: type[ValueError], most: int) -> N:
    """Return the network that `make` makes, with its shapes and without memory.

    Args:
        make: called once, where every tensor is one of shape alone.
        error: raised where the network is too large.
        most: parameters.

    Raises:
        ValueError: (`error`) it has more than `most` parameters.
    """
    try:
        with torch.device("meta"):
            network = make()
    except (RuntimeError, TypeError, OverflowError) as fault:  # a shape beyond 64 bits
        raise error("a network of more parameters than can be counted") from fault
    check_count(sum(one.numel() for one in network.parameters()), error, most)
    return network


def _halved(shapes: nn.Module) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
    """Shape and type of each weight in a file, which holds fractions as 16-bit numbers."""
    found = {}
    for name, one in shapes.state_dict().items():
        kind = torch.half if one.is_floating_point() else one.dtype
        found[name] = (tuple(one.shape), torch.empty(0, dtype=kind).numpy().dtype)
    return found
