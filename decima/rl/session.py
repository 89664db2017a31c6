"""Training session: from a learner and a run folder to a model file, for any learner."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from torch import Tensor

from decima.rl.checkpoint import load_tensors
from decima.rl.learner import Learner, LoopSettings, Observer
from decima.rl.loop import TrainingResult, train
from decima.rl.run_folder import RunFolder, read_run
from decima.rl.tensorboard import TensorBoardLog
from traces.files.reading import read_bytes
from traces.files.writing import make_folder, write_whole

Save = Callable[[Mapping[str, Tensor], Mapping[str, object]], None]
"""writes weights, and a card about the training"""


def train_and_save(
    learner: Learner,
    folder: RunFolder,
    settings: LoopSettings,
    save: Save,
    observers: Sequence[Observer] = (),
) -> TrainingResult:
    """Train from the folder's checkpoint if there is one, then save the model.

    Saves the best weights, or without a validation the newest; nothing if no iteration was done.
    How long it took is in the folder's metrics, not in the model: the same training gives the same
    bytes.

    Args:
        learner: as newly made from the configuration of the run.
        folder: the run folder, open.
        settings: how long to train.
        save: called at the end, at most once.
        observers: called after each iteration, after TensorBoard's log.

    Raises:
        ValueError: (one line) the configuration or the checkpoint breaks a rule.
        NotFiniteError: a number of the training is not finite.
    """
    log = TensorBoardLog(folder.path / "tensorboard")
    result = train(learner, folder, settings, (log, *observers))
    if result.state.next_iteration == 0:
        return result
    has_best = folder.best_file.exists()
    weights = load_tensors(folder.best_file)[0] if has_best else learner.model_state()
    card = {
        "iterations": result.state.next_iteration,
        "best_iteration": result.state.best_iteration,
        "best_score": result.state.best_score,
    }
    save(weights, card)
    return result


def shipped_models(package: str, error: type[ValueError]) -> Path:
    """The folder of a package's trained models, which its wheel does not bring.

    Raises:
        ValueError: (`error`) there is none.
    """
    folder = Path(str(files(package) / "data"))
    if not any(folder.glob("*.safetensors")):
        raise error(
            f"the trained models of {package} are not in its wheel: give --models "
            f"{package}/data of the unpacked source distribution (decima-scheduler-VERSION.tar.gz)"
            f", or train them: {package} study"
        )
    return folder


def gather_models(
    runs: Path,
    out: Path,
    planned: Mapping[str, Callable[[dict[str, Any]], bool]],
    model: str,
    error: type[ValueError],
) -> list[str]:
    """Copy the models of a study's runs, finished or not, into a folder.

    Args:
        runs: a folder of run folders.
        out: where to; made if it is not there.
        planned: by the name of each run of the study, whether a recorded configuration is its.
        model: name of the file in a run folder.
        error: raised where there is none, one was trained otherwise, or one cannot be copied.

    Returns:
        the names of the runs that had a model.

    Raises:
        ValueError: (`error`) so it is.
    """
    found = [name for name in planned if (runs / name / model).is_file()]
    if not found:
        raise error(f"{runs}: holds no run of the study, such as {next(iter(planned))}")
    for name in found:
        if not planned[name](read_run(runs / name).config):
            raise error(f"{runs / name}: was not trained with the study's settings")
    make_folder(out, error)
    for name in found:
        content = read_bytes(runs / name / model, error)
        write_whole(out / f"{name}.safetensors", content, error)
    return found
