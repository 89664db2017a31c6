"""Stories of the default protocol, each solved by hand before it was run."""

from __future__ import annotations

import numpy as np
import pytest

from spark_sim import Action, Cluster, IllegalActionError, SimulationError, Simulator, Status
from tests.stories import always_pass, build, greedy, job, stage, tell, waves
from traces import LevelDurations, Stage, Trace, to_arrays


def test_waves_follow_the_past_of_the_executor() -> None:
    """Fresh once in the job, rest in the same stage, first in the next stage. The executor moves at
    0, arrives at 2 s and stays in its job.
    """
    x = waves("x", 2, fresh=3000, first=2000, rest=1000)
    y = waves("y", 2, fresh=300, first=200, rest=100, parents=[0])

    story = tell([job("a", x, y)], greedy)

    assert story.tasks == [
        "e0 a.x 2000-5000",
        "e0 a.x 5000-6000",
        "e0 a.y 6000-6200",
        "e0 a.y 6200-6300",
    ]
    assert story.decisions == ["0: 1 for a.x -> a.x 1", "6000: 1 for a.y -> a.y 1"]
    assert story.metrics.moving_executor_s == 2.0


def test_a_fresh_task_without_measurements_takes_a_first_one_plus_the_warm_up() -> None:
    """2 s of first wave and 0.7 s of warm-up, once; later waves never pay it."""
    x = waves("x", 2, fresh=None, first=2000, rest=1000)
    y = waves("y", 1, fresh=None, first=200, rest=100, parents=[0])

    story = tell([job("a", x, y)], greedy, warmup_delay_ms=700)

    assert story.tasks == ["e0 a.x 2000-4700", "e0 a.x 4700-5700", "e0 a.y 5700-5900"]


def test_an_executor_that_comes_back_to_a_job_is_fresh_again() -> None:
    """It leaves `a` for `b` between two stages of `a`; the JVM of `a` is gone by its return."""
    y = waves("y", 1, fresh=3, first=2, rest=1, parents=[0])
    a = job("a", waves("x", 1, fresh=30, first=20, rest=10), y)
    b = job("b", waves("z", 1, fresh=300, first=200, rest=100))

    story = tell([a, b], {0: ["a.x 1"], 2030: ["b.z 1"], 4330: ["a.y 1"]})

    assert story.tasks == ["e0 a.x 2000-2030", "e0 b.z 4030-4330", "e0 a.y 6330-6333"]


def test_the_level_is_the_number_of_executors_in_the_job_when_the_task_starts() -> None:
    """Of four that arrive together, each finds one more in the job, as the next task does."""
    levels = tuple(LevelDurations.of(count, rest_ms=[1000 * count]) for count in (1, 2, 3, 4))
    a = job("a", Stage("x", 5, (), levels))

    story = tell([a], greedy, executors=4, warmup_delay_ms=0)

    assert story.tasks == [
        "e0 a.x 2000-3000",
        "e1 a.x 2000-4000",
        "e2 a.x 2000-5000",
        "e3 a.x 2000-6000",
        "e0 a.x 3000-7000",
    ]


def test_early_executors_wait_and_start_when_the_last_parent_completes() -> None:
    """e0 is given to y at 3 s, waits for w, and starts at 5 s without a further decision."""
    a = job("a", stage("x", 1, 1000), stage("w", 1, 3000), stage("y", 2, 500, [0, 1]))
    b = job("b", stage("z", 1, 100))

    story = tell([a, b], greedy, executors=2, arrival_ms=[0, 4000])

    # Nothing at 4000: the executor that waits for y is not on offer to b.
    assert story.decisions == [
        "0: 2 for a.x a.w -> a.x 2",
        "0: 1 for a.w -> a.w 2",
        "3000: 1 for a.y -> a.y 2",
        "5000: 1 for a.y b.z -> a.y 2",
        "5500: 2 for b.z -> b.z 2",
    ]
    assert story.tasks[2:4] == ["e0 a.y 5000-5500", "e1 a.y 5000-5500"]


def test_executors_of_a_stage_that_runs_out_are_decided_for_together() -> None:
    """e1 finds no third task at 3 s; e0, busy until 4 s, is on offer with it and is promised."""
    a = job("a", stage("x", 3, 1000), stage("y", 2, 500, [0]))

    story = tell([a], greedy, executors=2)

    # Both executors are given at 3000 to the same stage: at 4000 nobody is asked.
    assert story.decisions == ["0: 2 for a.x -> a.x 2", "3000: 2 for a.y -> a.y 2"]
    assert story.tasks[2:] == ["e0 a.x 3000-4000", "e1 a.y 4000-4500", "e0 a.y 4000-4500"]


def test_a_promised_executor_leaves_for_another_job_when_its_task_ends() -> None:
    """At 3 s y takes the idle e1 and b the busy e0, which moves at 4 s and arrives at 6 s."""
    a = job("a", stage("x", 3, 1000), stage("y", 1, 500, [0]))
    b = job("b", stage("z", 1, 100))

    story = tell([a, b], {0: ["a.x 2"], 3000: ["a.y 1", "b.z 1"]}, executors=2)

    assert story.decisions[:3] == [
        "0: 2 for a.x b.z -> a.x 2",
        "3000: 2 for a.y b.z -> a.y 1",
        "3000: 1 for b.z -> b.z 1",
    ]
    assert story.tasks[2:] == ["e0 a.x 3000-4000", "e1 a.y 4000-4500", "e0 b.z 6000-6100"]


def test_what_nobody_was_promised_stays_in_its_job_and_comes_back_with_the_next_event() -> None:
    """Passed over at 3 s, both executors are offered again at 4 s, when x completes."""
    a = job("a", stage("x", 3, 1000), stage("y", 2, 500, [0]))

    story = tell([a], {0: ["a.x 2"], 4000: ["a.y 2"]}, executors=2)

    assert story.decisions == [
        "0: 2 for a.x -> a.x 2",
        "3000: 2 for a.y -> pass",
        "4000: 2 for a.y -> a.y 2",
    ]
    assert story.completed == {"a": 4500.0}
    assert story.metrics.decisions == 3
    assert story.metrics.forced == 0


def test_about_to_be_free_in_the_job_comes_before_those_in_no_job() -> None:
    """y wants two: the idle e1 and the busy e0, both warm, though e2 is free in no job."""
    a = job("a", stage("x", 3, 1000), stage("y", 2, 500, [0]))

    story = tell([a], {0: ["a.x 2"], 3000: ["a.y 2"]}, executors=3)

    assert sorted(story.tasks[3:]) == ["e0 a.y 4000-4500", "e1 a.y 4000-4500"]


def test_those_in_no_job_come_before_those_idle_in_other_jobs() -> None:
    """At 3 s b takes e2, which never worked, and leaves e0 and e1 warm in a."""
    a = job("a", stage("x", 2, 1000), stage("y", 1, 500, [0]))
    b = job("b", stage("z", 1, 100))

    story = tell([a, b], {0: ["a.x 2"], 3000: ["b.z 1"]}, executors=3)

    assert "e2 b.z 5000-5100" in story.tasks


def test_idle_in_other_jobs_come_by_arrival_of_these() -> None:
    """c takes the executor idle in a before the one idle in b, though b's became idle first."""
    a = job("a", stage("x", 1, 1000), stage("y", 1, 500, [0]))
    b = job("b", stage("z", 1, 500), stage("v", 1, 500, [0]))
    c = job("c", stage("u", 1, 100))

    story = tell([a, b, c], {0: ["b.z 1", "a.x 1"], 3000: ["c.u 1"]}, executors=2)

    assert story.decisions[2:5] == [
        "2500: 1 for a.y b.v c.u -> pass",
        "3000: 2 for a.y b.v c.u -> c.u 1",
        "3000: 1 for a.y b.v -> pass",
    ]
    assert "e1 c.u 5000-5100" in story.tasks, "e0 went to b, e1 to a"


def test_about_to_be_free_in_another_job_comes_last() -> None:
    """b takes the idle e1 of a at once and not the busy e0, although both are on offer."""
    a = job("a", stage("x", 3, 1000), stage("y", 2, 500, [0]))
    b = job("b", stage("z", 1, 100))

    story = tell([a, b], {0: ["a.x 2"], 3000: ["b.z 1", "a.y 1"]}, executors=2)

    assert story.tasks[3:] == ["e0 a.y 4000-4500", "e0 a.y 4500-5000", "e1 b.z 5000-5100"]


def test_a_stage_is_offered_once_in_a_round_and_again_in_the_next() -> None:
    """x is given one of two executors; the other is not offered to it before b arrives."""
    a = job("a", stage("x", 5, 1000))
    b = job("b", stage("z", 1, 100))

    story = tell([a, b], {0: ["a.x 1"], 2500: ["a.x 2"]}, executors=2, arrival_ms=[0, 2500])

    assert story.decisions[:2] == ["0: 2 for a.x -> a.x 1", "2500: 1 for a.x b.z -> a.x 2"]
    assert story.tasks[:4] == [
        "e0 a.x 2000-3000",
        "e0 a.x 3000-4000",
        "e0 a.x 4000-5000",
        "e1 a.x 4500-5500",
    ]


def test_children_open_when_their_parents_want_no_more_executors() -> None:
    """y opens at 0, once x is given all it wants, long before x runs; not while one is missing."""
    a = job("a", stage("x", 2, 1000), stage("y", 1, 500, [0]))

    both = tell([a], {0: ["a.x 2", "a.y 3"]}, executors=3)
    one = tell([a], {0: ["a.x 1"]}, executors=3)

    assert both.decisions == ["0: 3 for a.x -> a.x 2", "0: 1 for a.y -> a.y 3"]
    assert both.tasks[2] == "e2 a.y 3000-3500", "it moved beside the others and waited for x"
    assert one.decisions[0] == "0: 3 for a.x -> a.x 1"
    assert "a.y" not in one.decisions[0]
    assert one.decisions[1].startswith("4000: ")


def test_a_task_that_ends_is_seen_by_the_job_that_arrives_at_the_same_instant() -> None:
    """At 3 s the task of a ends first, so the arrival of b finds the executor on offer."""
    a = job("a", stage("x", 1, 1000), stage("y", 1, 500, [0]))
    b = job("b", stage("z", 1, 100))

    story = tell([a, b], {0: ["a.x 1"]}, arrival_ms=[0, 3000], time_limit_ms=3000)

    assert story.decisions == [
        "0: 1 for a.x -> a.x 1",
        "3000: 1 for a.y -> pass",
        "3000: 1 for a.y b.z -> pass",
    ]


def test_an_executor_on_its_way_to_a_job_that_ends_arrives_in_no_job() -> None:
    """a ends at 2.6 s; e0, sent to it at 2.45 s, is free at 4.45 s and then moves on to c."""
    first = job("first", stage("x", 1, 450))
    a = job("a", stage("x", 1, 400), stage("y", 2, 100, [0]))
    c = job("c", stage("z", 1, 100))

    story = tell([first, a, c], "strict_fair", executors=2, arrival_ms=[0, 0, 4000])

    assert story.completed["a"] == 2600.0
    assert story.tasks_of("e1")[:3] == ["e1 a.x 2000-2400", "e1 a.y 2400-2500", "e1 a.y 2500-2600"]
    assert story.completed["c"] == 6100.0, "e1 went to c at 4000"
    assert story.tasks_of("e0") == ["e0 first.x 2000-2450"]


def test_passing_for_ever_still_runs_every_job_oldest_first() -> None:
    """The simulator takes one executor at a time to the first open stage, and counts it."""
    a = job("a", stage("x", 1, 1000), stage("y", 1, 500, [0]))
    b = job("b", stage("z", 2, 100))

    story = tell([a, b], always_pass, executors=2)

    assert story.tasks == [
        "e0 a.x 2000-3000",
        "e0 a.y 3000-3500",
        "e1 b.z 5500-5600",
        "e1 b.z 5600-5700",
    ]
    assert story.metrics.forced == 3
    assert story.metrics.decisions == len(story.decisions)


def test_a_stage_that_may_not_be_chosen_is_refused_by_name() -> None:
    """y is closed while x wants executors; 7 is no stage at all; nothing changes."""
    a = job("a", stage("x", 3, 1000), stage("y", 1, 500, [0]))
    simulator = build([a], Cluster(num_executors=2))

    with pytest.raises(IllegalActionError, match="stage 1 may not be chosen now; open stages are"):
        simulator.step(Action(1, 1))
    with pytest.raises(IllegalActionError, match=r"stage 7 is not one of 0\.\.1"):
        simulator.step(Action(7, 1))
    with pytest.raises(IllegalActionError, match=r"stage 0: limit 3 must lie in 1\.\.2"):
        simulator.step(Action(0, 3))

    assert simulator.step(Action(0, 2)) is Status.DECIDE
    assert simulator.state.clock[0]["decisions"] == 1


def test_calls_that_do_not_belong_to_a_run_are_refused() -> None:
    """A decision after the end, decima-sim's action, a timeline that was not asked for."""
    arrays = to_arrays(Trace("t", (job("a", stage("x", 1, 1000)),)))
    simulator = Simulator(arrays, Cluster(num_executors=1), np.zeros(1), np.zeros(1, np.int32))
    with pytest.raises(SimulationError, match=r"commit\(\) is the action of the decima-sim"):
        simulator.commit(0, 1)
    assert simulator.step(Action(0, 1)) is Status.DONE
    with pytest.raises(SimulationError, match="no decision is due: the run is DONE"):
        simulator.step(Action(0, 1))
    with pytest.raises(SimulationError, match="no timeline was recorded"):
        simulator.timeline()


def test_a_read_only_trace_gives_the_same_run() -> None:
    """Kernels are compiled for writable arrays; those mapped from a file are not."""
    arrays = to_arrays(Trace("one", (job("a", stage("x", 3, 1000)),)))
    locked = arrays._replace(samples_ms=arrays.samples_ms.copy())
    locked.samples_ms.flags.writeable = False
    ends = []
    for trace in (arrays, locked):
        simulator = Simulator(trace, Cluster(num_executors=2), np.zeros(1), np.zeros(1, np.int32))
        while simulator.status is Status.DECIDE:
            simulator.step(greedy(simulator.observation()))
        ends.append(simulator.completion_ms()[0])
    assert ends[0] == ends[1] > 0.0
