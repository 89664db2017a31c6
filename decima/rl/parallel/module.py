"""Another process of Python that runs a module of this program."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any


def begin_module(name: str, *arguments: str, **how: Any) -> subprocess.Popen[bytes]:
    """Start a module as a program, from where this process imports modules.

    The working folder, which may hold files of the same names, is not searched unless this process
    searches it. `how` is for `subprocess.Popen`.
    """
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    return subprocess.Popen(  # noqa: S603 - this program
        [sys.executable, "-P", "-m", name, *arguments],
        env=os.environ | {"PYTHONPATH": path},
        **how,
    )
