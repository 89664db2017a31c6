"""The learning curve of a run for a terminal: one line for each validation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

WIDTH = 40  # characters of the longest bar


def curve(metrics: Iterable[Mapping[str, float]], title: str) -> list[str]:
    """Return lines of the validated rows: iteration, percent above strict fair, a bar of it.

    `title` is what the objective of the training is called.
    """
    rows = [row for row in metrics if "validation/score" in row]
    if not rows:
        return []
    most = max(1.0, *(abs(row["validation/score"]) for row in rows))
    lines = [f"iteration   score   drawn   {title} against strict_fair, percent"]
    for row in rows:
        score, drawn = row["validation/score"], row.get("validation/drawn")
        bar = ("+" if score > 0 else "-") * round(WIDTH * abs(score) / most)
        words = "" if drawn is None else f"{drawn:+.1f}"
        lines.append(f"{int(row['iteration']) + 1:9,}  {score:+6.1f}  {words:>6}   {bar}")
    return lines
