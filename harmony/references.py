"""Reference scores of the validations of a training."""

from __future__ import annotations

from decima.rl.progress import Reference
from decima.rl.run_folder import RunFolder
from harmony.learner import validation_of
from harmony.schedulers import LoadBalance, Tiresias
from harmony.session import config_of
from harmony.training_config import TrainConfig


def references(folder: RunFolder) -> tuple[Reference, ...]:
    """Tiresias and LB on the sequences that choose the best weights of a policy; else nothing.

    Raises:
        StudyError: the folder is of another kind of training.
    """
    config = config_of(folder)
    if not isinstance(config, TrainConfig):
        return ()
    label = "geometric mean of completion times in intervals"
    heuristics = {"Tiresias": Tiresias(config.cluster), "LB": LoadBalance()}
    return tuple(
        Reference(label, name, validation_of(one, config)["score"], is_log=True)
        for name, one in heuristics.items()
    )
