"""What works without the extras, and what is said of those that are missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from decima_packages import EXTRAS
from tests.commands import ran

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Settings of a Python in which no extra is installed."""
    folder = tmp_path_factory.mktemp("bare")
    hidden = f"import sys\nfor name in {sorted(EXTRAS)}: sys.modules[name] = None\n"
    (folder / "sitecustomize.py").write_text(hidden, encoding="utf-8")
    return {"PYTHONPATH": f"{folder}:{ROOT}"}


def test_heuristics_the_network_what_if_and_pages_need_no_extra(
    bare: dict[str, str], tmp_path: Path
) -> None:
    for line in (
        "evaluate --jobs 5 --sequences 2 --policies strict_fair,es_rule,decima --report page.html",
        "explain --decision 3 --jobs 5",
        "traces sample-logs logs",
        "whatif logs --report whatif.html --draws 2 --sequences 5",
    ):
        done = ran("-m", "decima", *line.split(), folder=tmp_path, environment=bare)
        assert done.returncode == 0, done.stderr
    assert "Decisions of decima" in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert (tmp_path / "whatif.html").stat().st_size > 10_000


@pytest.mark.parametrize("program", ["decima", "deeprm", "harmony"])
def test_a_missing_extra_is_one_line_with_its_command(
    bare: dict[str, str], tmp_path: Path, program: str
) -> None:
    done = ran("-m", program, "train", "--out", "run", folder=tmp_path, environment=bare)
    assert done.returncode == 2, done.stderr
    assert done.stderr.splitlines()[-1].endswith("pip install 'decima-scheduler[train]'")
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []
