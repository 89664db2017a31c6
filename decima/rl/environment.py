"""Commit and versions that a run was made with. Machine and user are not recorded."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from pathlib import Path

import numpy as np
import torch

_GIT_TIMEOUT_S = 30.0


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
