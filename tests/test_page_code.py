"""The Python on pages prints what the pages say."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"


@pytest.mark.parametrize("page", ["environment.md", "graphs.md"])
def test_all_blocks_of_a_page_one_after_the_other(
    page: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```)?", text, re.DOTALL)
    script = tmp_path / "page.py"
    script.write_text("\n".join(code for code, _ in blocks), encoding="utf-8")
    runpy.run_path(str(script))
    assert len(blocks) >= 3
    assert capsys.readouterr().out == "".join(printed for _, printed in blocks)
