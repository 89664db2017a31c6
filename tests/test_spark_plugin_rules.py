"""What the plugin allows and counts, asked in a JVM without Spark."""

from __future__ import annotations

from typing import Any

import pytest

from tests.jvm import Talk
from tests.live import Live, Row, report, task_set

pytestmark = pytest.mark.real_spark


# --- settings ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("lapse", ["5", "99ms", "2h", "soon", "-1s"]),
        ("hold", ["10000000000000000d", "106751992d", "61s"]),
        ("decision", ["0", "11min"]),
        ("starve", ["5", "10000000000000000d"]),
        ("idle", ["5", "8d"]),
        ("autoEvery", ["0s", "600", "10000000000000000d"]),
        ("pools", ["maybe"]),
        ("required", ["ture"]),
        ("maxSlotsPerJob", ["0", "two"]),
        ("maxSlots.user.bob", ["-1"]),
        ("maxJobs", ["0", "-1", "two", "1.5", ""]),
        ("metricsPort", ["65536", "-1", "http"]),
        ("decisionLogFiles", ["1"]),
        ("decisionLogBytes", ["0"]),
        ("weight", ["0", "nan", "heavy", "1e-320"]),
        ("coordinator", ["127.0.0.1", "host:port"]),
    ],
)
def test_a_value_that_makes_no_sense_is_refused(jvm: Talk, name: str, values: list[str]) -> None:
    """A lapse of 5, read as 5 ms; a hold that overflows: the line names setting and value."""
    for value in values:
        assert f"spark.decima.{name}: '{value}'" in jvm.ask({"settings": {name: value}})


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"lapse": "5"}, "is 5 ms: from 100 to 3600000 ms are allowed"),
        ({"lapse": "100ms", "hold": "0", "idle": "5s", "starve": "1min"}, None),
        ({"lapse": "2s", "hold": "100", "metricsPort": "0", "decisionLogFiles": "2"}, None),
        ({"pools": "ignore", "required": "caps"}, None),
        ({"policy": "auto", "python": "python3", "mode": "shadow"}, None),
        ({"policy": "auto", "python": "python3", "mode": "soft"}, "mode exact or shadow"),
        ({"mode": "exact", "maxSlotsPerJob": "2"}, None),
        ({"mode": "exact", "maxJobs": "2"}, None),
        ({"mode": "soft", "maxJobs": "2"}, "spark.decima.mode: 'soft'"),
        ({"mode": "shadow", "maxJobs": "2"}, "so maxJobs 2 would not hold"),
        ({"mode": "soft", "maxSlotsPerJob": "2"}, "spark.decima.mode: 'soft'"),
        ({"mode": "shadow", "maxSlotsPerJob": "2"}, "spark.decima.mode: 'shadow'"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(
    jvm: Talk, given: dict[str, str], reason: str | None
) -> None:
    """Caps would not hold in soft or shadow mode; shares of pools stay as they were set."""
    answer = jvm.ask({"settings": given})
    assert answer is None if reason is None else reason in answer


@pytest.mark.parametrize(
    ("given", "nearest"),
    [
        ("maxSlotPerJob", "maxSlotsPerJob"),
        ("maxslots.user.bob", "maxSlots.user.bob"),
        ("maxSlots.users.bob", "maxSlots.user.bob"),
        ("maxSlots.pol.small", "maxSlots.pool.small"),
        ("polcy", "policy"),
    ],
)
def test_a_misspelt_setting_is_refused_with_the_nearest_name(
    jvm: Talk, given: str, nearest: str
) -> None:
    answer = jvm.ask({"settings": {given: "2"}})
    assert answer.startswith(f"spark.decima.{given}: no such setting")
    assert answer.endswith(f" spark.decima.{nearest}")


# --- failures in a row ---------------------------------------------------------------------------


def capped(time_ms: int, sets: list[Row], *, slots: int = 8, idle: int = 0) -> dict[str, Any]:
    """Task sets of a job whose user has a cap of two; `idle` slots have stood idle for long."""
    return report(
        time_ms=time_ms, sets=sets, slots=slots, caps={"a": {"user bob": 2}},
        idle_ms=4_000 if idle else 0, idle_slots=idle,
    )  # fmt: skip


def of_a(stage: int, tasks: int, running: int) -> Row:
    return task_set(stage, tasks, 0, running, "a")


def failures(jvm: Talk, script: list[str], reports: list[dict[str, Any]]) -> list[int]:
    """Failures in a row after each report, by a policy that does as the script says."""
    live = Live(jvm, script, idle_s=5)
    return [int(live.tell(message, "plan")["in_a_row"]) for message in reports]


def test_rounds_that_a_cap_closes_forgive_nothing(jvm: Talk) -> None:
    """The policy raises whenever it is asked. In between, the last tasks of a stage hold all that
    the cap allows, so that it is not asked.
    """
    open_, closed = [of_a(0, 10, 0)], [of_a(0, 2, 2), of_a(1, 5, 0)]
    reports = [
        capped(1_000 * number, closed if number % 2 else open_, slots=2) for number in range(10)
    ]
    assert failures(jvm, ["raise"] * 10, reports) == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]


def test_a_round_that_gives_all_that_a_cap_allows_forgives(jvm: Talk) -> None:
    """Six slots stand idle beside the user's tasks, as they should."""
    reports = [capped(1_000 * number, [of_a(0, 10, 0)]) for number in range(3)]
    assert failures(jvm, ["raise", "raise", "fifo"], reports) == [1, 2, 0]


def test_slots_that_a_policy_leaves_idle_are_its_fault_while_a_cap_binds(jvm: Talk) -> None:
    """Two of eight, which the cap allows; the six others excuse nothing."""
    reports = [
        capped(3_000 * number, [of_a(0, 10, 0)], idle=2 if number else 0) for number in range(4)
    ]
    assert failures(jvm, ["pass"] * 4, reports) == [0, 0, 1, 1]


def test_a_stage_that_waits_for_its_first_decision_ends_a_pause(jvm: Talk) -> None:
    """Other news can wait: tiny jobs bring several reports each, and need no decision."""
    assert not jvm.ask({"pause": "touch"})
    assert jvm.ask({"pause": "urge"})
