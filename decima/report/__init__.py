"""Results as one HTML file that opens from disk, and as figures for papers."""

from collections.abc import Sequence

from decima.report.comparison import comparison_section, summary_section
from decima.report.page import write_page
from decima.report.results import Results, read_results, results_of
from decima.report.section import Section
from decima.report.timelines import Timelines, timelines_section

__all__ = [
    "Results",
    "Section",
    "Timelines",
    "comparison_sections",
    "read_results",
    "results_of",
    "write_page",
]


def comparison_sections(
    results: Sequence[Results], timelines: Timelines | None = None
) -> list[Section]:
    """Sections of a page; FileError if the timeline is not of the first of the results."""
    sections = [summary_section(results)] if len(results) > 1 else []
    sections += [comparison_section(each, number) for number, each in enumerate(results)]
    if timelines is not None:
        sections.append(timelines_section(results[0], timelines))
    return sections
