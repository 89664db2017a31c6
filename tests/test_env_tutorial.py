"""The tutorial on a policy of one's own in torch: what it prints is what it promises."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.readme_blocks import blocks

PAGE = Path(__file__).parents[1] / "docs" / "how-to" / "learn-in-torch.md"


def test_the_tutorial_learns() -> None:
    """A tenth off the average JCT of unseen sequences at the least."""
    (block,) = blocks(PAGE.read_text(encoding="utf-8"))
    found = subprocess.run(  # noqa: S603 - our own page
        [sys.executable, "-c", block.code], check=True, capture_output=True, text=True
    )
    match = re.fullmatch(r"average JCT: (\d+) s before, (\d+) s after training\n", found.stdout)
    assert match is not None
    before_s, after_s = (int(number) for number in match.groups())
    assert after_s < 0.9 * before_s
