"""The folder of one training run.

config.json               the whole configuration, as given when the run was made
environment.json          a list: commit and versions, again for each resume that differs
metrics.jsonl             one line for each iteration
checkpoint.safetensors    everything needed to go on
best.safetensors          the model with the best validation score
failure/                  after a number that was not finite: the state before, and a report
lock                      held by the process that works here
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from sys import intern
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from filelock import FileLock, Timeout

from decima.rl.errors import RunError
from traces.files.errors import FileError
from traces.files.names import clean
from traces.files.numbers import is_count, is_number
from traces.files.reading import LineBounds, parse_json, read_json, read_lines
from traces.files.writing import PARTIAL_SUFFIX, append, make_folder, write_json, write_whole

_LOCK, _CONFIG, _METRICS = "lock", "config.json", "metrics.jsonl"
_NUMBER = "iteration"
"""leads each line of metrics"""
_GIT_TIMEOUT_S = 30.0
METRICS_BOUNDS = LineBounds(1 << 27)
"""a line of one iteration has about 1 KB: room for 100,000 of them"""


class RunRecord(NamedTuple):
    """Files that a run has written so far."""

    config: dict[str, Any]
    metrics: list[dict[str, float]]


def read_run(path: Path) -> RunRecord:
    """Read the record of a run, which may be under way; RunError if the folder is no run."""
    config = path / _CONFIG
    if not config.is_file():
        raise RunError(f"{path}: no run: it holds no {_CONFIG}")
    return RunRecord(_read_config(config), [row for _, row in _metric_lines(path / _METRICS)])


def _read_config(path: Path) -> dict[str, Any]:
    config = read_json(path, RunError)
    if not isinstance(config, dict):
        raise RunError(f"{path}: holds no JSON object")
    return config


def _metric_lines(path: Path) -> Iterator[tuple[bytes, dict[str, float]]]:
    """Yield the lines, up to one that was cut short; RunError if one is not of numbers."""
    if not path.exists():
        return
    for _, line in read_lines(path, METRICS_BOUNDS, RunError):
        try:
            row = parse_json(line, str(path))
        except FileError:  # a process was killed while it wrote this line
            return
        if not isinstance(row, dict) or not is_count(row.get(_NUMBER)):
            raise RunError(f"{path}: {line[:40]!r} is not a line of metrics")
        metrics = {}
        for name, value in row.items():
            if not is_number(value):
                raise RunError(f"{path}: {name[:40]!r} is {value!r:.40}: no finite number")
            # One object for a name that stands in each of many lines. As floats: an array of whole
            # numbers beyond 64 bits would not be one of numbers.
            metrics[intern(clean(name))] = value if name == _NUMBER else float(value)
        yield line, metrics


class RunFolder:
    """A run folder that this process alone may write to, until `close`.

    Made by `create` or `open`; use it in a `with` block. A run that is refused in the block of its
    `create`, before there is anything to resume, leaves nothing behind.
    """

    def __init__(self, path: Path, lock: FileLock, made: Sequence[Path] | None = None) -> None:
        """`made`: the new folders of a new run, the innermost first; None: it goes on."""
        self.path = path
        self._lock = lock
        self._made = made
        self.config_file = path / _CONFIG
        self.environment_file = path / "environment.json"
        self.metrics_file = path / _METRICS
        self.checkpoint_file = path / "checkpoint.safetensors"
        self.best_file = path / "best.safetensors"
        self.failure_folder = path / "failure"

    @classmethod
    def create(cls, path: Path, config: Mapping[str, object]) -> Self:
        """Start a run in a folder that is empty or not there yet; `config` is plain JSON.

        Raises RunError if the folder holds something, or cannot be written.
        """
        made = [parent for parent in (path, *path.parents) if not parent.exists()]
        if not (path / _CONFIG).exists():
            _check_empty(path)  # first, so that no lock is made among other files
        make_folder(path, RunError)
        with _locked(path) as lock:
            folder = cls(path, lock, made)
            if folder.config_file.exists():
                raise RunError(f"{path}: holds a run already: resume it, or choose another folder")
            _check_empty(path)
            folder._remove_partial_files()
            try:
                write_json(folder.config_file, dict(config), RunError)
                folder._note_environment()
            except ValueError:
                folder.discard()
                raise
            return folder

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open a run to resume it; RunError if the folder is no run, is in use, or is read-only."""
        if not (path / _CONFIG).is_file():
            raise RunError(f"{path}: not a run folder: it has no {_CONFIG}")
        with _locked(path) as lock:
            folder = cls(path, lock)
            folder._remove_partial_files()
            folder._note_environment()
            return folder

    @property
    def config(self) -> dict[str, Any]:
        """The configuration given to `create`; RunError if the file is not what was written."""
        return _read_config(self.config_file)

    def append_metrics(self, iteration: int, metrics: Mapping[str, float]) -> None:
        """Add the line of one iteration; RunError if the file cannot be written."""
        line = json.dumps({_NUMBER: iteration, **metrics}, allow_nan=False)
        append(self.metrics_file, line.encode() + b"\n", RunError)

    def metrics(self) -> list[dict[str, float]]:
        """The lines of `metrics.jsonl` so far, up to one that was cut short."""
        return [metrics for _, metrics in _metric_lines(self.metrics_file)]

    def keep_metrics_before(self, iteration: int) -> None:
        """Drop the lines of this iteration and later ones: they will be written again."""
        rows = _metric_lines(self.metrics_file)
        lines = [line + b"\n" for line, row in rows if row[_NUMBER] < iteration]
        write_whole(self.metrics_file, b"".join(lines), RunError)

    def report_failure(self, report: Mapping[str, object]) -> None:
        """Write `failure/report.json`, and make its folder."""
        make_folder(self.failure_folder, RunError)
        write_json(self.failure_folder / "report.json", dict(report), RunError)

    def close(self) -> None:
        """Let other processes use the folder."""
        self._lock.release()

    def discard(self) -> None:
        """Remove all files of a new run, and the folders that were made for it."""
        for entry in self.path.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.unlink(missing_ok=True)
        self.close()
        with contextlib.suppress(OSError):  # another process may have put something there
            for folder in self._made or ():
                folder.rmdir()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, trace: object) -> None:
        written = (self.checkpoint_file, self.metrics_file, self.failure_folder)
        is_new = self._made is not None and not any(file.exists() for file in written)
        if is_new and isinstance(error, ValueError):
            self.discard()
        else:
            self.close()

    def _remove_partial_files(self) -> None:
        """Remove files of a process killed while writing; the lock excludes a running one."""
        for partial in self.path.glob(f".*{PARTIAL_SUFFIX}"):
            with contextlib.suppress(OSError):
                partial.unlink()

    def _note_environment(self) -> None:
        exists = self.environment_file.exists()
        sessions = read_json(self.environment_file, RunError) if exists else []
        if not isinstance(sessions, list):
            raise RunError(f"{self.environment_file}: holds no JSON list")
        now = environment()
        if not sessions or sessions[-1] != now:
            write_json(self.environment_file, [*sessions, now], RunError)


def _check_empty(path: Path) -> None:
    """Refuse a folder that holds anything but the remains of a run killed while it was made."""
    names = sorted(entry.name for entry in path.iterdir()) if path.is_dir() else []
    held = [name for name in names if name != _LOCK and not name.endswith(PARTIAL_SUFFIX)]
    if held:
        raise RunError(f"{path}: holds {held[0]} and is no run: choose an empty folder")


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[FileLock]:
    """The lock of a folder; it is let go only if the block fails.

    The system lets it go when the process ends, however it ends.
    """
    # Where the file system has no locks, a file that a killed process leaves would lock for ever.
    lock = FileLock(path / _LOCK, blocking=False, fallback_to_soft=False, thread_local=False)
    try:
        lock.acquire()
    except Timeout as error:
        raise RunError(f"{path}: another process is training in this folder") from error
    except OSError as error:
        raise RunError(f"{path}: cannot lock the folder: {error.strerror or error}") from error
    try:
        yield lock
    except BaseException:
        lock.release()
        raise


def environment() -> dict[str, object]:
    """Versions, the number of threads (sums depend on it) and the state of this source.

    `git_commit` and `git_dirty` are None where this source is not part of a git checkout.
    """
    commit, dirty = git_state(Path(__file__))
    return {
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": np.__version__,
        "threads": torch.get_num_threads(),
        "git_commit": commit,
        "git_dirty": dirty,
    }


def git_state(source: Path) -> tuple[str | None, bool | None]:
    """Commit of the checkout that `source` is tracked in, and whether Python files differ from it.

    An installed package may lie inside a checkout of something else: only a tracked file counts.
    """
    tracked = _git(source.parent, "ls-files", "--error-unmatch", source.name)
    commit = None if tracked is None else _git(source.parent, "rev-parse", "HEAD")
    if commit is None:
        return None, None
    changed = _git(source.parent, "status", "--porcelain", "--", ":/*.py")
    return commit, None if changed is None else changed != ""


def _git(folder: Path, *arguments: str) -> str | None:
    """Run git and return its stripped output, or None where git is missing or fails."""
    git = shutil.which("git")
    if git is None:
        return None
    # Inside a git hook these would point at the repository of the hook.
    variables = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(  # noqa: S603
            [git, "-C", str(folder), *arguments],
            capture_output=True,
            text=True,
            check=True,
            timeout=_GIT_TIMEOUT_S,
            env=variables,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
