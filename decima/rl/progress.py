"""Progress of a training run: a display in a terminal, plain lines in a log."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from decima.rl.loop import SCORE, Clock, IterationReport, LoopSettings, LoopState, Observer

_REFRESHES_PER_S = 2.0


@dataclass(frozen=True)
class Reference:
    """Reference of the scores and its name."""

    score_name: str
    """what a score measures, with its unit, e.g. "average JCT in s" """
    name: str
    """whose score it is"""
    score: float
    """its score on the same validation data"""
    is_log: bool = False
    """whether scores are logarithms: what they measure is shown"""

    def shown(self, score: float) -> float:
        """Return what a score measures."""
        return math.exp(score) if self.is_log else score


class RichProgress(Observer):
    """A bar with score, best and time left; without a terminal, a line every `every_s` seconds.

    The first line comes before the first iteration, which may take minutes.

    Args:
        console: where to show it; standard error by default, as results go to standard output.
        reference: what to compare scores with, if anything.
        every_s: seconds between plain lines. The first and the last iteration always get one.
        clock: seconds that never go backwards.
    """

    def __init__(
        self,
        console: Console | None = None,
        reference: Reference | None = None,
        every_s: float = 10.0,
        clock: Clock = time.monotonic,
    ) -> None:
        self._console = Console(stderr=True) if console is None else console
        self._reference = reference
        self._every_s = every_s
        self._clock = clock
        self._begin: LoopState
        self._settings: LoopSettings
        self._shown_at_s = -math.inf
        self._bar: Progress | None = None
        self._task = TaskID(0)
        self._score: float | None = None

    def started(self, state: LoopState, settings: LoopSettings) -> None:
        """Show where the session begins."""
        self._begin, self._settings = state, settings
        if self._console.is_terminal:
            self._bar = Progress(
                TextColumn("iteration"),
                MofNCompleteColumn(),
                BarColumn(),
                TextColumn("{task.description}", markup=False),
                console=self._console,
                refresh_per_second=_REFRESHES_PER_S,
            )
            self._task = self._bar.add_task(
                "", total=settings.iterations, completed=state.next_iteration
            )
            self._bar.start()
            return
        self._print(f"iteration {state.next_iteration}/{settings.iterations}, begun")

    def iterated(self, report: IterationReport) -> None:
        """Show the iteration, if it is time to."""
        self._score = report.metrics.get(f"validation/{SCORE}", self._score)
        done = report.state.next_iteration
        if self._bar is not None:
            self._bar.update(self._task, completed=done, description=self._text(report.state))
            return
        now_s = self._clock()
        if now_s - self._shown_at_s >= self._every_s or done == self._settings.iterations:
            self._shown_at_s = now_s
            self._print(f"iteration {done}/{self._settings.iterations}, {self._text(report.state)}")

    def stopped(self) -> None:
        """Leave the last bar standing and give the terminal back."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _print(self, line: str) -> None:
        self._console.print(line, highlight=False, markup=False, soft_wrap=True)

    def _text(self, state: LoopState) -> str:
        left = duration_text(time_left_s(self._begin, state, self._settings))
        if self._score is None or state.best_score is None:
            return f"{left} left"
        if self._reference is None:
            return f"score {self._score:.4g}, best {state.best_score:.4g}, {left} left"
        reference = self._reference
        score, best, base = map(reference.shown, (self._score, state.best_score, reference.score))
        percent = "" if base == 0.0 else f"{100.0 * (best - base) / abs(base):+.1f} % "
        return (
            f"{reference.score_name} {score:.4g}, best {best:.4g} ({percent}against "
            f"{reference.name} {base:.4g}), {left} left"
        )


def time_left_s(begin: LoopState, now: LoopState, settings: LoopSettings) -> float:
    """Upper bound of the remaining time at the pace since `begin`; infinity before an iteration."""
    done = now.next_iteration - begin.next_iteration
    spent_s = now.elapsed_s - begin.elapsed_s
    pace_s = spent_s / done if done > 0 else math.inf
    ahead = settings.iterations - now.next_iteration
    left_s = pace_s * ahead if ahead > 0 else 0.0
    if settings.time_limit_s is None:
        return left_s
    return min(left_s, max(settings.time_limit_s - spent_s, 0.0))


def duration_text(seconds: float) -> str:
    """A duration to read at a glance: `45 s`, `12 min`, `3 h 05 min`, or `?` if infinite."""
    if not math.isfinite(seconds):
        return "?"
    if seconds < 90.0:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60.0)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"


def compared(score: float | None, references: Sequence[Reference]) -> str:
    """A validation score beside those of others: `1.58, average slowdown (SJF 1.69)`."""
    if score is None:
        return "none yet"
    if not references:
        return f"{score:.4g}"
    others = ", ".join(
        f"{reference.name} {reference.shown(reference.score):.4g}" for reference in references
    )
    first = references[0]
    return f"{first.shown(score):.4g}, {first.score_name} ({others} on the same data)"
