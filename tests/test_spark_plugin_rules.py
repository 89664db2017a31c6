"""What the plugin allows and counts, asked in a JVM without Spark."""

from __future__ import annotations

from typing import Any

import pytest

from tests.jvm import Classes
from tests.live import Live, Row, report, task_set

pytestmark = pytest.mark.real_spark


# --- settings ------------------------------------------------------------------------------------


def test_times_that_make_no_sense_are_refused_with_the_rule(classes: Classes) -> None:
    """A lapse of 5, read as 5 ms; a hold that overflows; and what is sensible is taken."""
    refused = {
        "lapse": ["5", "99ms", "2h", "soon", "-1s"],
        "hold": ["10000000000000000d", "106751992d", "61s"],
        "decision": ["0", "11min"],
        "starve": ["5", "10000000000000000d"],
        "idle": ["5", "8d"],
        "autoEvery": ["0s", "600", "10000000000000000d"],
    }
    allowed = {"lapse": ["100ms", "2s"], "hold": ["0", "100"], "idle": ["5s"], "starve": ["1min"]}
    asked = [({name: value}, True) for name, all_ in refused.items() for value in all_]
    asked += [({name: value}, False) for name, all_ in allowed.items() for value in all_]
    answers = classes.ask("decima.spark.TrySettings", [one for one, _ in asked])
    for (told, is_refused), reason in zip(asked, answers, strict=True):
        assert (reason is not None) == is_refused, told
        if is_refused:
            ((name, value),) = told.items()
            assert f"spark.decima.{name}: '{value}'" in reason
    named = dict(zip((one["lapse"] for one, _ in asked if "lapse" in one), answers, strict=False))
    assert "is 5 ms: from 100 to 3600000 ms are allowed" in named["5"]


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"policy": "auto", "python": "python3", "mode": "shadow"}, None),
        ({"policy": "auto", "python": "python3", "mode": "soft"}, "mode exact or shadow"),
        ({"pools": "ignore"}, None),
        ({"pools": "maybe"}, "spark.decima.pools: 'maybe'"),
        ({"mode": "exact", "maxSlotsPerJob": "2"}, None),
        ({"mode": "soft", "maxSlotsPerJob": "2"}, "spark.decima.mode: 'soft'"),
        ({"mode": "shadow", "maxSlotsPerJob": "2"}, "spark.decima.mode: 'shadow'"),
        ({"required": "caps"}, None),
        ({"required": "ture"}, "spark.decima.required: 'ture'"),
        ({"maxSlots.pol.small": "2"}, "maxSlots.pool.small"),
        ({"maxSlotsPerJob": "0"}, "maxSlotsPerJob: '0'"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(
    classes: Classes, settings: dict[str, str], reason: str | None
) -> None:
    """Caps would not hold in soft or shadow mode; shares of pools stay as they were set."""
    (answer,) = classes.ask("decima.spark.TrySettings", [settings])
    assert answer is None if reason is None else reason in answer


@pytest.mark.parametrize(
    ("given", "nearest"),
    [
        ("maxSlotPerJob", "maxSlotsPerJob"),
        ("maxSlotsPerjob", "maxSlotsPerJob"),
        ("maxSlotsPerUsers", "maxSlotsPerUser"),
        ("maxslots.user.bob", "maxSlots.user.bob"),
        ("maxSlots.users.bob", "maxSlots.user.bob"),
        ("maxSlot.group.a.b", "maxSlots.group.a.b"),
        ("maxSlots.pools.web", "maxSlots.pool.web"),
        ("maxSlots.User.ann", "maxSlots.user.ann"),
        ("polcy", "policy"),
        ("decisionlog", "decisionLog"),
        ("Policy", "policy"),
    ],
)
def test_a_misspelt_setting_is_told_with_the_nearest_name(
    classes: Classes, given: str, nearest: str
) -> None:
    (answer,) = classes.ask("decima.spark.TrySettings", [{given: "2"}])
    assert answer == (
        f"spark.decima.{given}: no such setting; the nearest is spark.decima.{nearest}"
    )


# --- failures in a row ---------------------------------------------------------------------------


def capped(time_ms: int, sets: list[Row], *, slots: int = 8, idle: int = 0) -> dict[str, Any]:
    """Task sets of a job whose user has a cap of two; `idle` slots have stood idle for long."""
    return report(
        time_ms=time_ms, sets=sets, slots=slots, caps={"a": {"user bob": 2}},
        idle_ms=4_000 if idle else 0, idle_slots=idle,
    )  # fmt: skip


def of_a(stage: int, tasks: int, running: int) -> Row:
    return task_set(stage, tasks, 0, running, "a")


def failures(classes: Classes, script: list[str], reports: list[dict[str, Any]]) -> list[int]:
    """Failures in a row after each report, by a policy that does as the script says."""
    with classes.talk("decima.policy.DriveSession") as jvm:
        live = Live(jvm, script, idle_s=5)
        return [int(live.tell(one, "plan")["in_a_row"]) for one in reports]


def test_rounds_that_a_cap_closes_forgive_nothing(classes: Classes) -> None:
    """The policy raises whenever it is asked. In between, the last tasks of a stage hold all that
    the cap allows, so that it is not asked.
    """
    open_, closed = [of_a(0, 10, 0)], [of_a(0, 2, 2), of_a(1, 5, 0)]
    reports = [
        capped(1_000 * number, closed if number % 2 else open_, slots=2) for number in range(10)
    ]
    assert failures(classes, ["raise"] * 10, reports) == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]


def test_a_round_that_gives_all_that_a_cap_allows_forgives(classes: Classes) -> None:
    """Six slots stand idle beside the user's tasks, as they should."""
    reports = [capped(1_000 * number, [of_a(0, 10, 0)]) for number in range(3)]
    assert failures(classes, ["raise", "raise", "fifo"], reports) == [1, 2, 0]


def test_slots_that_a_policy_leaves_idle_are_its_fault_while_a_cap_binds(classes: Classes) -> None:
    """Two of eight, which the cap allows; the six others excuse nothing."""
    reports = [
        capped(3_000 * number, [of_a(0, 10, 0)], idle=2 if number else 0) for number in range(4)
    ]
    assert failures(classes, ["pass"] * 4, reports) == [0, 0, 1, 1]


def test_a_stage_that_waits_for_its_first_decision_ends_a_pause(classes: Classes) -> None:
    """Other news can wait: tiny jobs bring several reports each, and need no decision."""
    assert classes.ask("decima.spark.Pause", [{"by": "touch"}, {"by": "urge"}]) == [False, True]
