"""Entry points of the commands. They load packages only after Ctrl-C is handled."""

from __future__ import annotations

import importlib
import sys

from traces.files.undisturbed import keep_interrupts_while_torch_loads

INTERRUPTED = 130
"""exit code of a command that Ctrl-C stopped: 128 and the number of the signal, as in shells"""


def decima() -> None:
    """Run `decima`."""
    run("decima.cli.main")


def deeprm() -> None:
    """Run `deeprm`."""
    run("deeprm.cli")


def harmony() -> None:
    """Run `harmony`."""
    run("harmony.cli")


def run(module: str) -> None:
    """Load the module, which takes a second or two, and call its `main`."""
    keep_interrupts_while_torch_loads()
    try:
        importlib.import_module(module).main()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)  # noqa: T201
        sys.exit(INTERRUPTED)
