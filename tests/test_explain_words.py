"""The sentences of `decima explain`, from explanations made by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from decima.report.explain.decision import Explanation, JobShown, LimitShown, StageShown
from decima.report.explain.reasons import MESSAGES, Reason
from decima.report.explain.words import in_words


def hand_made(
    weights: dict[str, float] | None = None,
    *,
    local: int = 2,
    moving_delay_s: float = 2.0,
    chances: tuple[float, float] = (0.9, 0.1),
) -> Explanation:
    """Two stages to choose from, of which the first was taken: it gets two executors of two.

    Its job has 20 executor-seconds of work left and holds one executor, the other's 180 and 9; its
    tasks take 1 s, the other's 3. Each reason has its weight in the stage.
    """
    small = JobShown("small", 4, 5.0, 20.0, 0.2, 1, local)
    large = JobShown("large", 2, 60.0, 180.0, 0.8, 9, 0)
    first = StageShown(small, "scan", chances[0], 1, 8, 1.0, 4.0, True, None)
    second = StageShown(large, "sort", chances[1], 2, 30, 3.0, 12.0, False, None)
    return Explanation(
        decision=1,
        planned_at=1,
        time_s=60.0,
        jobs_in_system=2,
        executors=12,
        on_offer=2,
        moving_delay_s=moving_delay_s,
        stages=tuple(sorted((first, second), key=lambda shown: -shown.probability)),
        end_probability=0.0,
        end_place=3,
        taken=first,
        taken_limit=3,
        given=2,
        limits=(LimitShown(2, 0.25), LimitShown(3, 0.75)),
        taken_memory_gb=None,
        classes=(),
        reasons=tuple(Reason(name, part, 0.0, 0.0) for name, part in (weights or {}).items()),
        columns=(),
    )


def test_a_decision_reads_as_choice_probability_and_reasons() -> None:
    found = hand_made({"moving cost": 2.0, "work left": 1.3, "age": -0.6})
    assert in_words(found) == (
        "scan of small (arrival 4) gets 2 more executors: its job holds 1 and may now hold 3.",
        "Its probability is 90.0 %; next is sort of large with 10.0 %.",
        "Among 2 limits for its job, 3 has 75.0 %; lower ones have 25.0 % together.",
        "For it: its executors are already there; its job is short (20 executor-seconds left, on "
        "average 100).",
        "Against it: its job arrived recently (5 s since it arrived, on average 32).",
    )


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("executors held", "its job holds few executors (1 held, on average 5)"),
        ("tasks waiting", "few of its tasks are waiting (8 waiting, on average 19)"),
        ("task length", "its tasks are short (1.0 s each, on average 2.0)"),
        (
            "critical path",
            "its critical path is short (4.0 s to the end of its job, on average 8.0)",
        ),
        ("readiness", "it can start now"),
        ("progress", "its job has just begun (20 % of its work started, on average 50)"),
        ("memory", "the memory that a task needs"),
        ("limit", "the size of the limit (3)"),
        (MESSAGES, "the stages that come after it in its job (messages along the graph)"),
        (
            "cluster",
            "the state of the cluster (2 jobs in the system, 2 of 12 executors on offer)",
        ),
    ],
)
def test_each_reason_has_its_words(reason: str, words: str) -> None:
    found = hand_made({reason: 1.0})
    assert in_words(found)[-1] == f"For it: {words}."


@pytest.mark.parametrize(
    ("local", "delay_s", "words"),
    [
        (2, 2.0, "its executors are already there"),
        (1, 2.0, "1 of its 2 executors are already there, the rest have to move (2 s each)"),
        (0, 2.0, "its executors have to move (2 s each)"),
        (1, 0.0, "1 of the 2 executors on offer are its own already"),
    ],
)
def test_moving_executors_are_counted(local: int, delay_s: float, words: str) -> None:
    found = hand_made({"moving cost": 1.0}, local=local, moving_delay_s=delay_s)
    assert in_words(found)[-1] == f"For it: {words}."


def test_a_drawn_choice_is_called_so() -> None:
    """The likelier one is named."""
    assert in_words(hand_made(chances=(0.3, 0.7)))[1] == (
        "Its probability is 30.0 %; next is sort of large with 70.0 %. It was drawn, not the "
        "likeliest."
    )


def test_a_pass_and_a_decision_without_stages_in_words() -> None:
    found = hand_made({"work left": 1.0})
    idle = replace(
        found, taken=None, taken_limit=None, given=0, limits=(), end_probability=0.95, end_place=0
    )
    none = replace(idle, stages=(), reasons=(), end_probability=1.0)
    assert in_words(none) == ("No stage may be chosen: 2 executors on offer stay idle.",)
    assert in_words(idle) == (
        "Nothing is chosen: 2 executors on offer stay idle.",
        "Its probability is 95.0 %; next is scan of small with 90.0 %.",
        "For it: the stages' work left (100 executor-seconds left on average).",
    )
