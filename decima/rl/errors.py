"""Errors that stop a training run. Each message is one line: the place, the value, the rule."""


class RunError(ValueError):
    """A run folder, or something asked of it, breaks a rule."""


class CheckpointError(RunError):
    """A file of tensors cannot be written, or is none."""


class NoModelsError(RunError):
    """A figure is of trained models alone, and none of them is there. The message names them."""


class NotFiniteError(RunError):
    """A number of the training became infinite or not a number."""


class StudyError(ValueError):
    """Settings, a file or a request of a study of schedulers break a rule."""
