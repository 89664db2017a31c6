"""Results as one HTML file that opens from disk, and as figures for a paper."""

from decima.report.page import PageError, Timelines, write_page
from decima.report.results import Results, read_results, results_of

__all__ = ["PageError", "Results", "Timelines", "read_results", "results_of", "write_page"]
