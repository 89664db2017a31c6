"""The page of many applications, which links to a page of each that would gain most."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from decima.report.section import Bars, Section
from decima.report.whatif import PART_COLOURS
from decima.whatif.each import Looks
from decima.whatif.each_report import HEADINGS, Row, words
from decima.whatif.replay.breakdown import PARTS


def pages_folder(page: Path) -> Path:
    """The folder of the pages that a page links to, beside it."""
    return page.with_name(f"{page.stem}_pages")


def each_section(looks: Looks, rows: Sequence[Row], pages: Sequence[str | None]) -> Section:
    """Section of the totals and of the applications that would gain most.

    Args:
        looks: at all applications.
        rows: those that would gain most.
        pages: address of the page of each, relative to this one; None without one.
    """
    first, *others = words(looks)
    labels = [part.label for part in PARTS.values()]
    longest = {"all applications": looks.parts_s()}
    longest |= {row.label: dict(row.look.parts_s) for row in rows}
    shares = {
        name: dict(
            zip(labels, (s / max(sum(parts.values()), 1e-9) for s in parts.values()), strict=True)
        )
        for name, parts in longest.items()
    }
    return Section(
        anchor="each",
        heading="Many applications",
        template="each.html",
        content={
            "headline": first,
            "words": others,
            "headings": HEADINGS,
            "rows": [
                {"cells": row.cells(), "page": page, "verdict": row.verdict}
                for row, page in zip(rows, pages, strict=True)
            ],
        },
        charts=[
            Bars(
                "Where the time of the jobs went",
                shares,
                "share of the JCT, %",
                dict(zip(labels, PART_COLOURS, strict=True)),
            )
        ],
    )
