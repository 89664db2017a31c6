"""Tables on narrow terminals: whatever the width, nothing is cut."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence

import pytest
from rich.table import Table

from decima.cli.console import CleanConsole
from tests.commands import Command, decima, succeeded
from tests.test_cli_whatif import REAL

LONG = "runs/mine/with/a/very/long/path/to/a/model.safetensors:sampled"
HEADINGS = ("policy", "average JCT [95 %]", "vs strict_fair [95 %]", "p95", "makespan", "busy")
ROWS = (
    ("strict_fair", "63.8 s [29.8, 136.1]", "", "100.2", "1,234 (3 unfinished)", "70 %"),
    ("decima", "60.1 s [20.7, 99.9]", "-12.3 % [-20.1, -3.3]", "93.4", "1,200", "71 %"),
)


def shown(rows: Sequence[Sequence[str]], width: int, *, is_terminal: bool = True) -> list[str]:
    table = Table(box=None, pad_edge=False)
    for heading in HEADINGS:
        table.add_column(heading, no_wrap=True)
    for row in rows:
        table.add_row(*row)
    console = CleanConsole(
        width=width, file=io.StringIO(), force_terminal=is_terminal, color_system=None
    )
    console.print(table)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def test_a_table_that_fits_is_one() -> None:
    lines = shown(ROWS, 160)
    assert len(lines) == 3
    assert all(heading in lines[0] for heading in HEADINGS)


def test_in_a_pipe_a_row_is_a_line() -> None:
    """However wide, for programs that read it."""
    lines = shown([(LONG, *ROWS[0][1:])], 80, is_terminal=False)
    assert [line.split()[0] for line in lines] == ["policy", LONG]
    assert lines[0].rstrip().endswith("busy")


@pytest.mark.parametrize("width", [60, 80])
def test_columns_that_find_no_room_come_below(width: int) -> None:
    """With the names again, each cell whole on a line of its policy."""
    lines = shown(ROWS, width)
    assert max(map(len, lines)) <= width
    for row in ROWS:
        own = [line for line in lines if line.startswith(f"{row[0]} ")]
        assert len(own) >= 2
        assert all(any(cell in line for line in own) for cell in row)
    assert sum(line.startswith("policy ") for line in lines) == len(lines) // 3
    assert all(heading in "\n".join(lines) for heading in HEADINGS)


@pytest.mark.parametrize("width", [20, 30, 40])
def test_what_is_too_wide_by_itself_is_folded(width: int) -> None:
    """Every character is there, in its order."""
    rows = [(LONG, *ROWS[0][1:])]
    lines = shown(rows, width)
    assert max(map(len, lines)) <= width
    names = "".join(line[: width // 2].strip() for line in lines if line[:1].strip())
    assert LONG in names
    assert "…" not in "\n".join(lines)
    assert "makespan" in "\n".join(lines)


def at_80(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal of 80 columns, to all that is started from here on."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def test_evaluate_shows_every_figure_on_80_columns(
    run: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same cells as in a pipe."""
    arguments = ("--policies", "strict_fair,tuned_weighted_fair", "--time-limit", "9")
    wide = run(*arguments).stdout
    at_80(monkeypatch)
    printed = plain(run(*arguments).stdout)
    assert "…" not in printed
    table = wide.split("\n\n")[0]
    for cell in re.split(r"\s{2,}|\n", table):
        assert cell.strip() in printed
    assert max(len(line) for line in printed.splitlines()) <= 80


def test_whatif_shows_every_figure_on_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    at_80(monkeypatch)
    few = ("--draws", "2", "--sequences", "2", "--policies", "fifo,spark_fair,strict_fair,sjf_cp")
    result = succeeded(decima("whatif", REAL, "--executors", "2", *few))
    printed = plain(result.stdout)
    assert "…" not in printed
    assert max(len(line) for line in printed.splitlines()) <= 80
    assert printed.count("no other jobs") >= 1
    assert all(heading in printed for heading in ("resampled", "p95 change", "1 slot", "4 slots"))
