"""Stories of the shared session: one set of slots, a plan, and nobody who moves."""

from __future__ import annotations

import numpy as np

from spark_sim import Action, Cluster, Protocol, Simulator
from spark_sim.tables import FAIR_LIMIT
from tests.stories import Story, always_pass, job, stage, waves
from tests.stories import tell as tell_any
from traces import LevelDurations, Stage, Trace, to_arrays


def tell(*args: object, **settings: object) -> Story:
    return tell_any(*args, protocol=Protocol.SESSION, **settings)  # type: ignore[arg-type]


def test_only_the_first_task_ever_of_a_slot_is_fresh() -> None:
    """The slot stays warm from one job to the next; rest follows a task of the same stage."""
    x = waves("x", 2, fresh=900, first=200, rest=10)
    z = waves("z", 2, fresh=9000, first=300, rest=30)

    story = tell([job("a", x), job("b", z)], "fifo")

    assert story.tasks == ["e0 a.x 0-900", "e0 a.x 900-910", "e0 b.z 910-1210", "e0 b.z 1210-1240"]


def test_a_slot_is_offered_again_after_every_task_under_the_plan() -> None:
    """Limits 1 and 1: each job has one slot throughout, and nobody is asked in between."""
    a, b = job("a", stage("x", 3, 100)), job("b", stage("z", 3, 150))

    story = tell([a, b], {0: ["a.x 1", "b.z 1"]}, executors=2, time_limit_ms=299)

    assert story.decisions == ["0: 2 for a.x b.z -> a.x 1", "0: 1 for b.z -> b.z 1"]
    assert story.tasks_of("e0") == ["e0 a.x 0-100", "e0 a.x 100-200", "e0 a.x 200-300"]
    assert story.tasks_of("e1") == ["e1 b.z 0-150", "e1 b.z 150-300"]


def test_a_free_slot_goes_to_the_first_stage_of_the_plan_with_room_under_its_limit() -> None:
    """The slot of b.z, done at 100, is taken by a.x: first in the plan, limit 3, two running."""
    a, b = job("a", stage("x", 5, 1000)), job("b", stage("z", 1, 100))

    story = tell(
        [a, b],
        {0: ["b.z 1", "a.x 3"], 100: ["a.x 3"]},
        executors=3,
        time_limit_ms=900,
    )

    assert story.tasks == ["e0 b.z 0-100", "e1 a.x 0-1000", "e2 a.x 0-1000", "e0 a.x 100-1100"]


def test_a_job_that_the_plan_does_not_name_gets_no_slot() -> None:
    """b is not named at 0; its limit is 0 and the second slot stays idle until a's next event."""
    a, b = job("a", stage("x", 3, 100)), job("b", stage("z", 1, 100))

    story = tell([a, b], {0: ["a.x 1"]}, executors=2, time_limit_ms=290)

    assert story.decisions[:2] == ["0: 2 for a.x b.z -> a.x 1", "0: 1 for b.z -> pass"]
    assert all("b.z" not in line for line in story.tasks)


def test_a_new_plan_forgets_the_limits_of_the_old_one() -> None:
    """At 150 c arrives and only c is chosen: a keeps its running task and gets no further one."""
    a = job("a", stage("x", 4, 100))
    c = job("c", stage("z", 1, 1000))

    story = tell(
        [a, c],
        {0: ["a.x 1"], 150: ["c.z 1"]},
        arrival_ms=[0, 150],
        executors=2,
        time_limit_ms=900,
    )

    assert [line[3:] for line in story.tasks] == ["a.x 0-100", "a.x 100-200", "c.z 150-1150"]


def test_a_plan_that_runs_dry_is_made_anew() -> None:
    """The last task of x starts at 100; a slot is free then, and no stage is left in the plan."""
    levels = tuple(LevelDurations.of(count, rest_ms=[100 * count]) for count in (1, 2))
    a, b = job("a", Stage("x", 3, (), levels)), job("b", stage("z", 9, 1000))

    story = tell(
        [a, b],
        {0: ["a.x 2"], 100: ["b.z 1"]},
        executors=3,
        warmup_delay_ms=0,
        time_limit_ms=150,
    )

    assert story.decisions == [
        "0: 3 for a.x b.z -> a.x 2",
        "0: 1 for b.z -> pass",
        "100: 1 for b.z -> b.z 1",
    ]
    assert [line[3:] for line in story.tasks[2:]] == ["a.x 100-300", "b.z 100-1100"]


def test_a_pass_leaves_slots_idle_until_the_next_event_and_never_for_ever() -> None:
    """Nothing is chosen at 0; b comes at 500, is passed over too, and both run by force."""
    a, b = job("a", stage("x", 1, 100)), job("b", stage("z", 1, 100))

    story = tell([a, b], always_pass, arrival_ms=[0, 500])

    assert story.tasks == ["e0 a.x 500-600", "e0 b.z 600-700"]
    assert story.metrics.forced == 2


def test_the_level_is_the_number_of_running_tasks_of_the_job() -> None:
    """Two jobs share four slots: a task starts at level 1 or 2, never at 4."""
    levels = tuple(LevelDurations.of(count, rest_ms=[100 * count]) for count in (1, 2, 3, 4))
    jobs = [job(name, Stage("x", 3, (), levels)) for name in "ab"]

    story = tell(jobs, {0: ["a.x 2", "b.x 2"]}, executors=4, warmup_delay_ms=0)

    assert story.tasks == [
        "e0 a.x 0-100",
        "e1 a.x 0-200",
        "e2 b.x 0-100",
        "e3 b.x 0-200",
        "e0 a.x 100-300",
        "e2 b.x 100-300",
    ]


def test_the_slot_that_ends_a_task_is_the_one_that_goes_on() -> None:
    """Spark offers the freed executor, and only that: e0 stays warm, the idle e1 stays idle."""
    x = waves("x", 3, fresh=900, first=200, rest=10)

    story = tell([job("a", x)], {0: ["a.x 1"]}, executors=2)

    assert story.tasks == ["e0 a.x 0-900", "e0 a.x 900-910", "e0 a.x 910-920"]


def test_slots_left_over_are_offered_again_only_if_something_changed() -> None:
    """The plan leaves one of four slots idle. At 100 x has started its last task, at 200 a ends.

    Neither the end of that task's neighbour nor x without tasks tells a policy anything that it
    could use: all that is open is z, and b is at its limit. The completion of a is news.
    """
    a, b = job("a", stage("x", 3, 100)), job("b", stage("z", 9, 1000))
    plan = {0: ["a.x 2", "b.z 1"]}

    quiet, asked = (
        tell([a, b], plan, executors=4, time_limit_ms=250, ask_while_idle=ask)
        for ask in (False, True)
    )

    assert quiet.tasks == asked.tasks
    assert quiet.tasks == ["e0 a.x 0-100", "e1 a.x 0-100", "e2 b.z 0-1000", "e0 a.x 100-200"]
    assert quiet.decisions[2:] == ["200: 4 for b.z -> pass"]
    assert asked.decisions[2:] == [
        f"{when} for b.z -> pass" for when in ("100: 2", "100: 3", "200: 4")
    ]


def test_a_job_that_the_plan_no_longer_names_is_asked_about() -> None:
    """x of a job with limit 2 runs out at once; its first slot is free at 100, and w may use it."""
    a = job("a", stage("x", 2, 100), stage("w", 5, 300))

    plan = {0: ["a.x 2"], 100: ["a.w 2"]}

    story = tell([a], plan, executors=4, time_limit_ms=150, ask_while_idle=False)

    assert story.decisions == [
        "0: 4 for a.x a.w -> a.x 2",
        "0: 2 for a.w -> pass",
        "100: 3 for a.w -> a.w 2",
    ]
    assert story.tasks[2:] == ["e0 a.w 100-400", "e1 a.w 100-400"]


def test_a_round_asks_about_the_jobs_that_changed() -> None:
    """Two jobs, each with up to five of ten slots: when a stage of b ends, a keeps its plan.

    When b is complete, the share of a rises, and a is asked about.
    """
    a, b = job("a", stage("x", 20, 1000)), job("b", stage("y", 1, 100), stage("z", 1, 200, [0]))
    cluster = Cluster(num_executors=10, protocol=Protocol.SESSION, warmup_delay_ms=0.0)
    rows = np.arange(2, dtype=np.int32)
    simulator = Simulator(to_arrays(Trace("two", (a, b))), cluster, np.zeros(2), rows)
    clock, plan = simulator.state.clock[0], simulator.state.plan[0]
    simulator.keep_plans(FAIR_LIMIT)

    simulator.step(Action(0, 5))
    simulator.step(Action(1, 5))

    assert (clock["time_ms"], plan["changed_only"], clock["on_offer"]) == (100.0, 1, 5)
    assert simulator.state.asked[: plan["num_asked"]].tolist() == [1]

    simulator.step(Action(2, 5))

    assert (clock["time_ms"], plan["changed_only"], clock["on_offer"]) == (300.0, 0, 10)
    assert clock["decisions"] == 2 + 2, "the plan of a counts again"
