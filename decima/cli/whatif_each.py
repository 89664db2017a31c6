"""`decima whatif --each`: many applications, each by itself."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import quote

import click

from decima.cli.console import progress_bar, stdout, wrapped
from decima.cli.options import write_report
from decima.cli.workers import Where, open_pool
from decima.rl.tables import print_table
from decima.whatif.each import MOST_STUDIED, Ask, Looks, Studied, look_at_each, study_each
from decima.whatif.each_report import Row, table, to_json, words
from spark_sim.compiled.progress import announce
from traces.files.names import counted
from traces.files.writing import check_output_folder, write_json

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
"""characters that the name of a page has none of"""
_MOST_OF_A_NAME = 60


def whatif_each(
    ask: Ask, where: Where, json_path: Path | None, page: Path | None, title: str
) -> None:
    if where.cluster is not None:
        raise click.UsageError("--each reads the logs on this machine: it contradicts --cluster")
    if page is not None:
        check_output_folder(_pages_folder(page))
    announce()
    with open_pool(where, "decima whatif") as pool:
        with progress_bar("reading applications") as (bar, task):
            looks = look_at_each(
                ask,
                pool=pool,
                progress=lambda done, total: bar.update(task, completed=done, total=total),
            )
        best = looks.gaining()[:MOST_STUDIED]
        rows: list[Row] = []
        pages: list[str | None] = []
        with progress_bar("studying the best", len(best)) as (bar, task):
            for look, studied in zip(best, study_each(ask, best, pool=pool), strict=True):
                rows.append(Row.of(look, looks.label(look), studied))
                pages.append(None if page is None else _write_page_of(rows, studied, page))
                bar.update(task, advance=1)
    _print(looks, rows)
    if json_path is not None:
        write_json(json_path, to_json(looks, rows))
    if page is not None:
        from decima.report.whatif import each_section

        write_report(page, [each_section(looks, rows, pages)], f"What if: {title}")


def _pages_folder(page: Path) -> Path:
    """The folder beside a page for the pages that it links to."""
    return page.with_name(f"{page.stem}_pages")


def _write_page_of(rows: list[Row], studied: Studied | str, page: Path) -> str | None:
    """Write the page of the last row's application; return its address, relative to `page`."""
    if isinstance(studied, str):
        return None
    from decima.report.whatif import whatif_sections

    label, folder = rows[-1].label, _pages_folder(page)
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{len(rows):02}-{_UNSAFE.sub('-', label)[:_MOST_OF_A_NAME]}.html"
    write_report(folder / name, whatif_sections(*studied), f"What if: {label}")
    return quote(f"{folder.name}/{name}")


def _print(looks: Looks, rows: list[Row]) -> None:
    console = stdout(markup=False)
    wrapped(console, *words(looks))
    if rows:
        console.print()
        print_table(table(rows), console, console.print)
        console.print()
        wrapped(
            console,
            f"{counted(len(rows), 'application')}, ranked by the JCT that all jobs together would "
            "save. Best policy and changes: of the full study. --report: a page, and one of each.",
        )
