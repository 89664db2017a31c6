"""What is shown of a run: lines, a bar, TensorBoard files."""

from __future__ import annotations

import io
import math
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console
from tensorboardX.proto.event_pb2 import Event, SessionLog
from tensorboardX.record_writer import RecordWriter

from decima.rl.errors import RunError
from decima.rl.loop import IterationReport, LoopSettings, LoopState
from decima.rl.progress import Reference, RichProgress, time_left_s
from decima.rl.tensorboard import TensorBoardLog, framed

SETTINGS = LoopSettings(iterations=100, validate_every=5)


def report(iteration: int, *, best: float | None = None, **metrics: float) -> IterationReport:
    """An iteration of a run in which each takes three seconds."""
    state = LoopState(
        next_iteration=iteration + 1, best_score=best, elapsed_s=3.0 * (iteration + 1)
    )
    named = {name.replace("validation_", "validation/"): value for name, value in metrics.items()}
    return IterationReport(iteration, named, state)


class Lines:
    """A console that is a file, and a clock that is set by hand."""

    def __init__(self, *, terminal: bool) -> None:
        self.file = io.StringIO()
        self.console = Console(file=self.file, force_terminal=terminal, width=150)
        self.now_s = 0.0

    def clock(self) -> float:
        return self.now_s

    @property
    def text(self) -> str:
        return self.file.getvalue()


def test_in_a_log_a_line_comes_every_few_seconds() -> None:
    """At once, after the first iteration, then one in ten seconds, and the last."""
    lines = Lines(terminal=False)
    progress = RichProgress(lines.console, every_s=10.0, clock=lines.clock)
    progress.started(LoopState(), LoopSettings(iterations=12, validate_every=5))
    assert lines.text == "iteration 0/12, begun\n"
    for iteration in range(12):
        progress.iterated(report(iteration))
        lines.now_s += 3.0
    progress.stopped()

    shown = [line.split(",")[0] for line in lines.text.splitlines()]
    assert shown == [f"iteration {done}/12" for done in (0, 1, 5, 9, 12)]


def test_a_line_compares_score_and_best_with_the_reference() -> None:
    lines = Lines(terminal=False)
    reference = Reference("JCT s", "strict_fair", 80.0)
    progress = RichProgress(lines.console, reference, every_s=0.0, clock=lines.clock)
    progress.started(LoopState(), SETTINGS)
    progress.iterated(report(0))
    progress.iterated(report(1, best=76.0, validation_score=76.0))
    progress.iterated(report(2, best=76.0, loss=1.0))
    progress.iterated(report(3, best=76.0, validation_score=90.0))

    _, first, _, third, fourth = lines.text.splitlines()
    assert first == "iteration 1/100, 5 min left"
    against = "(-5.0 % against strict_fair 80)"
    assert third == f"iteration 3/100, JCT s 76, best 76 {against}, 5 min left"
    assert fourth == f"iteration 4/100, JCT s 90, best 76 {against}, 5 min left"


def test_in_a_terminal_there_is_a_bar() -> None:
    """With the same facts, and the terminal is given back at the end."""
    lines = Lines(terminal=True)
    progress = RichProgress(lines.console, Reference("JCT s", "fair", 80.0), clock=lines.clock)
    progress.started(LoopState(next_iteration=40, elapsed_s=120.0), SETTINGS)
    progress.iterated(report(40, best=76.0, validation_score=77.0))
    progress.stopped()
    progress.stopped()

    assert " 41/100" in lines.text
    assert "JCT s 77, best 76 (-5.0 % against fair 80)" in lines.text
    show_cursor = "\x1b[?25h"
    assert lines.text.rindex(show_cursor) > lines.text.rindex("41/100")


def test_time_left_follows_the_pace_of_the_session() -> None:
    """Ten iterations in 30 s leave 90 more in 270 s, unless the session ends before."""
    begin = LoopState(next_iteration=0, elapsed_s=500.0)
    now = LoopState(next_iteration=10, elapsed_s=530.0)

    assert time_left_s(begin, now, SETTINGS) == pytest.approx(270.0)
    limited = LoopSettings(iterations=100, validate_every=5, time_limit_s=100.0)
    assert time_left_s(begin, now, limited) == pytest.approx(70.0)
    assert time_left_s(begin, begin, SETTINGS) == math.inf
    assert time_left_s(begin, begin, limited) == pytest.approx(100.0)
    over = LoopState(next_iteration=90, elapsed_s=601.0)
    assert time_left_s(begin, over, limited) == 0.0
    assert time_left_s(LoopState(100), LoopState(100), SETTINGS) == 0.0


def records(file: Path) -> Iterator[Event]:
    """The events of a file, by the published framing: length, checksum, data, checksum."""
    data = file.read_bytes()
    while data:
        (length,) = struct.unpack("<Q", data[:8])
        yield Event.FromString(data[12 : 12 + length])
        data = data[16 + length :]


def test_records_are_framed_as_tensorboard_reads_them(tmp_path: Path) -> None:
    events = [b"", b"x", bytes(range(256)) * 5]
    writer = RecordWriter(str(tmp_path / "theirs"))
    for event in events:
        writer.write(event)
    writer.close()

    assert b"".join(map(framed, events)) == (tmp_path / "theirs").read_bytes()


def test_every_figure_becomes_a_scalar(tmp_path: Path) -> None:
    log = TensorBoardLog(tmp_path / "board")
    log.started(LoopState(), SETTINGS)
    log.iterated(report(0, loss=0.5))
    log.iterated(report(1, loss=0.25, validation_score=7.0))
    log.stopped()

    (file,) = (tmp_path / "board").iterdir()
    version, start, *rest = records(file)
    assert version.file_version == "brain.Event:2"
    assert (start.step, start.session_log.status) == (0, SessionLog.START)
    scalars = [(e.step, {v.tag: v.simple_value for v in e.summary.value}) for e in rest]
    assert scalars == [
        (0, {"loss": 0.5, "elapsed_s": 3.0}),
        (1, {"loss": 0.25, "validation/score": 7.0, "elapsed_s": 6.0}),
    ]
    assert all(event.wall_time > 0.0 for event in rest)


def test_a_resumed_session_hides_what_it_repeats(tmp_path: Path) -> None:
    """In a file of its own, read after the first, which starts at the iteration of the resume."""
    for step in (0, 7):
        log = TensorBoardLog(tmp_path)
        log.started(LoopState(next_iteration=step), SETTINGS)

    first, second = sorted(tmp_path.iterdir())
    assert [event.step for event in records(first)] == [0, 0]
    assert [event.step for event in records(second)] == [0, 7]


def test_a_board_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    """One line; not a thread that dies in silence."""
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match="cannot make"):
        TensorBoardLog(tmp_path / "file").started(LoopState(), SETTINGS)
    log = TensorBoardLog(tmp_path / "board")
    log.started(LoopState(), SETTINGS)
    (event_file,) = (tmp_path / "board").iterdir()
    event_file.unlink()
    event_file.symlink_to("/dev/full")
    with pytest.raises(RunError, match="cannot write"):
        log.iterated(report(0))
