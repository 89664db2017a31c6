"""What the plugin allows and counts, asked in a JVM without Spark."""

from __future__ import annotations

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


WAITS = [task_set(0, 10, job="a")]
LAST_TASKS = [task_set(0, 2, running=2, job="a"), task_set(1, 5, job="a")]


@pytest.mark.parametrize(
    ("script", "slots", "every_s", "idle_slots", "sets", "failures"),
    [
        # In between, last tasks hold all that the cap allows, so that the policy is not asked.
        (["raise"], 2, 1, 0, [WAITS, LAST_TASKS] * 5, [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]),
        # Six slots stand idle beside the user's tasks, as they should.
        (["raise", "raise", "fifo"], 8, 1, 0, [WAITS] * 3, [1, 2, 0]),
        # Two stand idle that the cap allows; the six others excuse nothing.
        (["pass"], 8, 3, 2, [WAITS] * 4, [0, 0, 1, 1]),
    ],
    ids=["closed rounds forgive nothing", "a full round forgives", "idle slots are a fault"],
)
def test_failures_in_a_row_under_a_cap_of_two(
    jvm: Talk,
    script: list[str],
    slots: int,
    every_s: int,
    idle_slots: int,
    sets: list[list[Row]],
    failures: list[int],
) -> None:
    live, counts = Live(jvm, script, idle_s=5), []
    for number, rows in enumerate(sets):
        idle = idle_slots if number > 0 else 0
        told = report(
            time_ms=1_000 * every_s * number, sets=rows, slots=slots, caps={"a": {"user bob": 2}},
            idle_ms=2_000 * idle, idle_slots=idle,
        )  # fmt: skip
        counts.append(live.tell(told, "plan")["in_a_row"])
    assert counts == failures


def test_a_stage_that_waits_for_its_first_decision_ends_a_pause(jvm: Talk) -> None:
    """Other news can wait: tiny jobs bring several reports each, and need no decision."""
    assert not jvm.ask({"pause": "touch"})
    assert jvm.ask({"pause": "urge"})
