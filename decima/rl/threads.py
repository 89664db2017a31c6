"""Number of threads that torch computes with."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Let torch compute with one thread, inside the block.

    The matrices of these networks are so small that threads spend more time waiting for each other
    than they save, ten times as much beside other work.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
