"""The Gymnasium environment: its contract, what it shows, what it takes, and its documentation."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.error import InvalidAction, ResetNeeded
from gymnasium.utils.env_checker import check_env

from decima import EvaluationConfig
from spark_sim import (
    Cluster,
    IllegalActionError,
    Protocol,
    SimulationError,
    Simulator,
    Status,
    Streams,
)
from spark_sim.env import ENV_ID, SCALED_ENV_ID, ArrivalSettings, SparkEnv
from spark_sim.observation import Action
from traces import Arrivals, Job, Stage, Trace, load_trace, to_arrays, tpch_like
from traces.arrivals import poisson

TRACE = tpch_like(np.random.default_rng(5), sizes_gb=(2,), queries=6)
SETTINGS = ArrivalSettings(num_jobs=6, mean_gap_s=10.0)
CLUSTERS = {
    protocol.label: Cluster(num_executors=8, protocol=protocol, time_limit_ms=300_000.0)
    for protocol in Protocol
}
each_protocol = pytest.mark.parametrize("cluster", CLUSTERS.values(), ids=CLUSTERS)

PASS_SLOT = 256
"""`max_stages` by default"""


def small_env(cluster: Cluster = CLUSTERS["executors"], **settings: Any) -> SparkEnv:
    """Six jobs on eight executors."""
    return SparkEnv(TRACE, cluster, SETTINGS, **settings)


def at_once(*jobs: int) -> Any:
    """An arrival source: these jobs of the trace, all at time 0."""
    return lambda trace, rng: Arrivals(np.zeros(len(jobs)), np.array(jobs, np.int32))


def act(slot: int, limit: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The action that gives the stage in `slot` the limit `limit`."""
    return np.array([slot, limit - 1])


def play_first_open(env: SparkEnv, limit: int = 8) -> tuple[list[Any], float, dict[str, Any]]:
    """An episode under a fixed rule: the slots chosen, the return, the last info."""
    shown, _ = env.reset(seed=3)
    slots, total_s, over = [], 0.0, False
    info: dict[str, Any] = {}
    while not over:
        slots.append(int(shown["action_mask"].argmax()))
        shown, reward_s, terminated, truncated, info = env.step(act(slots[-1], limit))
        total_s += reward_s
        over = terminated or truncated
    return slots, total_s, info


# --- the contract --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("env_id", "cluster"),
    [(SCALED_ENV_ID, CLUSTERS["executors"]), *((ENV_ID, other) for other in CLUSTERS.values())],
)
def test_the_environment_checker_finds_nothing(env_id: str, cluster: Cluster) -> None:
    """Spaces, seeding, return types and copies are as Gymnasium asks, without a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = gymnasium.make(
            env_id, trace=TRACE, cluster=cluster, arrivals=SETTINGS, illegal="pass"
        )
        check_env(made.unwrapped)


def test_the_id_makes_an_environment_without_arguments() -> None:
    """The trace that everything defaults to, on the default cluster; found by module name too."""
    made = gymnasium.make("spark_sim.env:decima/Spark-v0")
    shown, _ = made.reset(seed=0)
    assert isinstance(made.unwrapped, SparkEnv)
    assert shown["on_offer"].tolist() == [50]
    default = SparkEnv(load_trace(EvaluationConfig().trace))
    np.testing.assert_equal(shown, default.reset(seed=0)[0])


def test_the_seed_decides_the_episode() -> None:
    """The same seed gives the same episode, the next reset another, and so on again."""
    env, other = small_env(), small_env()
    first, second = play_first_open(env), play_first_open(env)
    assert first == second == play_first_open(other)
    env.reset(seed=3)
    third, info = env.reset()
    other.reset(seed=3)
    fourth, _ = other.reset()
    np.testing.assert_equal(third, fourth)
    assert info == {"seed": 3, "sequence": 1}
    drawn = poisson(TRACE, 6, 10_000.0, Streams(3, 1).arrivals())
    assert third["time_s"][0] == pytest.approx(drawn.arrival_ms[0] / 1000)
    # Without a seed there is fresh entropy, in the info, so that the episode can be played again.
    fresh, info = small_env().reset()
    assert info["seed"] != small_env().reset()[1]["seed"]
    np.testing.assert_equal(fresh, env.reset(seed=info["seed"])[0])


@each_protocol
def test_an_episode_is_the_simulators(cluster: Cluster) -> None:
    """The same choices give a `Simulator` the same decisions and the same times."""
    slots, total_s, info = play_first_open(small_env(cluster))
    streams = Streams(3, 0)
    drawn = poisson(TRACE, 6, 10_000.0, streams.arrivals())
    simulator = Simulator(
        to_arrays(TRACE), cluster, drawn.arrival_ms, drawn.job, duration_key=streams.duration_key()
    )
    for slot in slots:
        stages = simulator.observation().open_stages()
        simulator.step(Action(-1, 0) if slot == PASS_SLOT else Action(int(stages[0]), 8))
    clock = simulator.state.clock[0]
    assert simulator.status is Status.DONE
    assert info["decisions"] == clock["decisions"] == len(slots)
    assert info["jobs_completed"] == info["jobs_arrived"] == 6
    jct_s = (simulator.completion_ms() - drawn.arrival_ms) / 1000
    assert info["avg_jct_s"] == pytest.approx(jct_s.mean())
    assert total_s == pytest.approx(-jct_s.sum())


# --- rewards and ends ----------------------------------------------------------------------------

PAIR = Trace(
    "pair",
    (Job("long", (Stage.fixed("a", 1, 9_000.0),)), Job("short", (Stage.fixed("a", 1, 1_000.0),))),
)


def pair_env(time_limit_ms: float | None = None, **settings: Any) -> SparkEnv:
    """Jobs of 9 s and 1 s at time 0, one executor, no delays."""
    cluster = Cluster(1, moving_delay_ms=0.0, warmup_delay_ms=0.0, time_limit_ms=time_limit_ms)
    return SparkEnv(PAIR, cluster, at_once(0, 1), **settings)


def test_a_return_known_on_paper() -> None:
    """Short first: 1 s with two jobs, 9 s with one, 5.5 s on average. An old observation does not
    change with the next step.
    """
    env = pair_env()
    shown, _ = env.reset()
    before = {name: values.copy() for name, values in shown.items()}
    _, first_s, done, _, _ = env.step(act(1, 1))
    np.testing.assert_equal(shown, before)
    assert (first_s, done) == (-2.0, False)
    _, second_s, done, truncated, info = env.step(act(0, 1))
    assert (second_s, done, truncated) == (-9.0, True, False)
    assert info["avg_jct_s"] == 5.5


def test_a_time_limit_truncates_and_unfinished_jobs_count() -> None:
    """At 4 s the short job took 1 s and the long one is 4 s old; it is still in sight."""
    env = pair_env(time_limit_ms=4_000.0)
    env.reset()
    env.step(act(1, 1))
    shown, reward_s, done, truncated, info = env.step(act(0, 1))
    assert (reward_s, done, truncated) == (-3.0, False, True)
    assert (info["avg_jct_s"], info["jobs_arrived"], info["jobs_completed"]) == (2.5, 2, 1)
    assert shown["job_age_s"].tolist()[:2] == [4.0, 0.0]


def test_a_time_limit_before_the_first_arrival_ends_the_first_step() -> None:
    """Gymnasium has no episode without a step: any action is taken, nothing is earned."""
    late = Arrivals(np.array([10_000.0]), np.zeros(1, np.int32))
    env = SparkEnv(PAIR, Cluster(1, time_limit_ms=5_000.0), lambda trace, rng: late)
    shown, _ = env.reset()
    assert (shown["time_s"][0], shown["jobs_in_system"][0]) == (5.0, 0)
    _, reward_s, done, truncated, info = env.step(act(0, 1))
    assert (reward_s, done, truncated) == (0.0, False, True)
    assert (info["jobs_arrived"], info["illegal_action"]) == (0, False)
    assert np.isnan(info["avg_jct_s"])


def test_steps_belong_to_an_episode() -> None:
    """Before the first reset and after the end there is nothing to step."""
    env = pair_env()
    with pytest.raises(SimulationError, match="sequence"):
        env.reset(options={"sequence": 3})
    for call in (lambda: env.step(act(0, 1)), env.action_masks):
        with pytest.raises(ResetNeeded):
            call()
    env.reset()
    with pytest.raises(InvalidAction, match="is not in MultiDiscrete"):
        env.step(act(PASS_SLOT + 1, 1))
    env.step(act(1, 1))
    env.step(act(0, 1))
    with pytest.raises(ResetNeeded):
        env.step(act(0, 1))


# --- what it shows -------------------------------------------------------------------------------

WIDE = Stage.fixed("wide", 3, 2_000.0)
GALLERY = Trace(
    "gallery",
    (
        Job(
            "fork",
            (WIDE, Stage.fixed("left", 1, 4_000.0, [0]), Stage.fixed("end", 2, 1_000.0, [0, 1])),
        ),
        Job("single", (Stage.fixed("only", 4, 500.0),)),
    ),
)


def test_an_observation_written_out_by_hand() -> None:
    """Job fork (3 stages), job single; after the first decision two of four executors are left."""
    env = SparkEnv(GALLERY, Cluster(4), at_once(0, 1), max_jobs=3, max_stages=5)
    env.reset()
    shown, *_ = env.step(act(0, 2))
    expected = {
        "time_s": [0],
        "on_offer": [2],
        "jobs_in_system": [2],
        "source_job": [-1],
        "fair_share": [2.0],
        "job_mask": [1, 1, 0],
        "job_age_s": [0, 0, 0],
        "job_work_s": [12, 2, 0],
        "job_remaining_s": [12, 2, 0],
        "job_held": [2, 0, 0],
        "job_attached": [0, 0, 0],
        "job_local": [0, 0, 0],
        "job_limit": [2, 0, 0],
        "job_share": [1.0, 0.0, 0.0],
        "stage_mask": [1, 1, 1, 1, 0],
        "stage_job": [0, 0, 0, 1, -1],
        "stage_tasks": [3, 1, 2, 4, 0],
        "stage_launched": [0, 0, 0, 0, 0],
        "stage_finished": [0, 0, 0, 0, 0],
        "stage_demand": [1, 1, 2, 4, 0],
        "stage_runnable": [1, 0, 0, 1, 0],
        "stage_task_s": [2, 4, 1, 0.5, 0],
        "stage_critical_path_s": [7, 5, 1, 0.5, 0],
        "lowest_limit": [0, 0, 0, 1, 0],
        "action_mask": [0, 0, 0, 1, 0, 1],
        "edges": [[0, 0, 1, -1, -1], [1, 2, 2, -1, -1]],
    }
    shown_values = {name: values.tolist() for name, values in shown.items()}
    shown_values["edges"] = np.array(
        sorted(zip(*shown_values["edges"], strict=True), key=lambda e: (e[0] < 0, e))
    ).T.tolist()
    assert shown_values == expected
    assert list(env.observation_space.spaces) == sorted(expected)


def test_jobs_with_open_stages_are_shown_before_earlier_ones_without() -> None:
    """Two slots, four jobs: the first is fully served, so the second and third are in sight."""
    env = SparkEnv(GALLERY, Cluster(16), at_once(1, 0, 1, 0), max_jobs=2, max_stages=6)
    shown, _ = env.reset()
    assert shown["jobs_in_system"] == [4]
    assert shown["stage_tasks"].tolist() == [4, 3, 1, 2, 0, 0]
    shown, *_ = env.step(act(0, 4))
    assert shown["stage_tasks"].tolist() == [3, 1, 2, 4, 0, 0]
    assert shown["action_mask"].tolist() == [1, 0, 0, 1, 0, 0, 1]
    shown, *_ = env.step(act(3, 4))
    assert shown["stage_tasks"].tolist() == [3, 1, 2, 3, 1, 2]


def test_jobs_without_a_slot_still_count() -> None:
    """With one slot for six jobs every job completes and the return is their whole time."""
    env = SparkEnv(TRACE, CLUSTERS["executors"], SETTINGS, max_jobs=1)
    _, total_s, info = play_first_open(env)
    assert info["jobs_completed"] == 6
    assert total_s == pytest.approx(-6 * info["avg_jct_s"])


# --- illegal actions and bad settings ------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "rule"),
    [
        pytest.param(act(7, 1), r"slot 7, limit 1: only slots 0\.\.3 hold a stage", id="empty"),
        pytest.param(act(1, 4), "slot 1, limit 4: stage 1 may not be chosen now", id="closed"),
        pytest.param(act(0, 2), r"slot 0, limit 2: .* must lie in 3\.\.4", id="limit"),
    ],
)
def test_an_illegal_action_is_a_pass_or_an_error(
    action: np.ndarray[tuple[int], np.dtype[np.int64]], rule: str
) -> None:
    """Passed and flagged by default; on request refused, and the episode stands still."""
    settings: dict[str, Any] = {"max_jobs": 2, "max_stages": 8}
    source = at_once(0, 1)

    def open_again(illegal: Any) -> SparkEnv:
        # Fork holds 2 executors for 3 tasks when the other job's stage runs out of tasks.
        env = SparkEnv(GALLERY, Cluster(4), source, illegal=illegal, **settings)
        shown, _ = env.reset(seed=0)
        for step in (act(0, 2), act(3, 2)):
            shown, *_ = env.step(step)
        assert shown["action_mask"][0] == 1
        assert shown["lowest_limit"][0] == 3
        return env

    strict = open_again("raise")
    with pytest.raises(IllegalActionError, match=rule):
        strict.step(action)
    lenient, passing = open_again("pass"), open_again("pass")
    *outcome, flagged = lenient.step(action)
    *expected, fine = passing.step(act(8, 1))
    np.testing.assert_equal(outcome, expected)
    np.testing.assert_equal(strict.step(act(8, 1))[:4], expected)
    assert flagged["illegal_action"]
    assert not fine["illegal_action"]


@pytest.mark.parametrize(
    ("build", "settings", "rule"),
    [
        (SparkEnv, {"max_jobs": 0}, "max_jobs 0"),
        (SparkEnv, {"trace": GALLERY, "max_stages": 2}, "2 at least 3.* 'fork'"),
        (SparkEnv, {"illegal": "ignore"}, "illegal .*'ignore'"),
        (SparkEnv, {"limits": "loose"}, "limits .*'loose'"),
        (ArrivalSettings, {"process": "weekly"}, "'weekly'"),
        (ArrivalSettings, {"num_jobs": 0}, "num_jobs .*got 0"),
        (ArrivalSettings, {"mean_gap_s": float("nan")}, "mean_gap_s .*nan"),
    ],
)
def test_impossible_settings_are_refused(
    build: Callable[..., object], settings: dict[str, Any], rule: str
) -> None:
    """One line that names the value and the rule."""
    with pytest.raises(SimulationError, match=rule):
        build(**settings)
