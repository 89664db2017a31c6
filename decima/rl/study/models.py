"""Networks of a study: their files of weights, and how they are trained.

A file holds weights as 16-bit numbers, with the configuration of their training in its header.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor, nn

from decima.rl.checkpoint import load_tensors, object_among, save_tensors
from decima.rl.errors import StudyError
from decima.rl.loop import Learner, LoopSettings, Observer, TrainingResult, train
from decima.rl.model_files import MAX_PARAMETERS, check_count, check_weights, header_settings
from decima.rl.run_folder import RunFolder
from decima.rl.tensorboard import TensorBoardLog
from traces.files.reading import read_bytes
from traces.files.writing import write_whole

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
    """One kind of network, and the marks of its files."""

    package: str
    format: object
    """in the header of a file"""
    config: type[C]
    make: Callable[[C], N]
    """makes the network of a configuration, which has learned nothing"""
    name: str | None = None
    """where the package has several kinds"""
    most: int = MAX_PARAMETERS

    def new_folder(
        self, path: Path, config: C, copies: Mapping[str, Path | None] | None = None
    ) -> RunFolder:
        """Make a run folder, with `copies` of models by the names of their files there.

        It holds the settings, and the kind if that has a name: `trainings.read_config` reads them.
        Raises RunError if the folder holds something, StudyError if a model cannot be copied.
        """
        given = {name: model for name, model in (copies or {}).items() if model is not None}
        contents = {name: read_bytes(model, StudyError) for name, model in given.items()}
        settings = config.to_json()
        recorded = settings if self.name is None else {"kind": self.name, "config": settings}
        folder = RunFolder.create(path, recorded)
        try:
            for name, content in contents.items():
                write_whole(path / name, content, StudyError)
        except ValueError:
            folder.discard()
            raise
        return folder

    def check_size(self, config: C) -> None:
        """Raise StudyError for a network that is too large, before memory is taken for it."""
        _outline(lambda: self.make(config), self.most)

    def save(
        self, path: Path, config: C, weights: Mapping[str, Tensor], card: Mapping[str, object]
    ) -> None:
        """Write weights with the configuration of their training; RunError if that fails."""
        facts: dict[str, Any] = {"format": self.format}
        if self.name is not None:
            facts["kind"] = self.name
        facts |= {"config": config.to_json(), "card": dict(card)}
        tensors = {
            n: tensor.half() if tensor.is_floating_point() else tensor
            for n, tensor in weights.items()
        }
        save_tensors(path, tensors, facts)

    def load(self, path: Path) -> Model[N, C]:
        """Return what `save` wrote.

        Raises StudyError if the file is no such model, or its weights do not fit its header.
        """
        weights, facts = load_tensors(path, 8 * self.most)
        if facts.get("format") != self.format:
            raise StudyError(f"{path}: no model of {self.package}, or of another version of it")
        if (kind := facts.get("kind")) != self.name:
            raise StudyError(f"{path}: of kind {kind!r:.40}, where {self.name!r} is needed")
        stored = object_among(facts, "config", path)
        config = header_settings(path, self.config, stored, StudyError)
        card = object_among(facts, "card", path)
        try:
            shapes = _outline(lambda: self.make(config), self.most)
        except StudyError as fault:
            raise StudyError(f"{path}: its header names an impossible network: {fault}") from fault
        expected = {}  # a file holds fractions as 16-bit numbers
        for name, tensor in shapes.state_dict().items():
            kind = torch.half if tensor.is_floating_point() else tensor.dtype
            expected[name] = (tuple(tensor.shape), torch.empty(0, dtype=kind).numpy().dtype)
        arrays = {name: tensor.numpy() for name, tensor in weights.items()}
        check_weights(path, expected, arrays, StudyError)
        network = self.make(config)
        network.load_state_dict(
            {
                n: tensor.float() if tensor.is_floating_point() else tensor
                for n, tensor in weights.items()
            }
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
        done. The time that it took is in the folder's metrics, not in the model: the same training
        gives the same bytes. `learner` is as newly made from the configuration. Raises
        NotFiniteError if a number of the training is not finite.
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


def _outline(make: Callable[[], N], most: int) -> N:
    """Return the network that `make` makes, without memory: every tensor is a shape alone.

    Raises StudyError if it has more than `most` parameters.
    """
    try:
        with torch.device("meta"):
            network = make()
    except (RuntimeError, TypeError, OverflowError) as fault:  # a shape beyond 64 bits
        raise StudyError("a network of more parameters than can be counted") from fault
    check_count(sum(tensor.numel() for tensor in network.parameters()), StudyError, most)
    return network
