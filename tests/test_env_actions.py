"""Masks that hold no illegal action, scaled observations, and many environments at once."""

from __future__ import annotations

import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.error import InvalidAction, ResetNeeded
from gymnasium.spaces import MultiDiscrete
from gymnasium.vector import AutoresetMode

from spark_sim import Cluster, ExecutorClass, IllegalActionError, Protocol, SimulationError
from spark_sim.env import ENV_ID, SCALED_ENV_ID, ArrivalSettings, SparkEnv
from spark_sim.vector_env import SparkVectorEnv
from traces import tpch_like
from traces.estimates import drawn_demands

TRACE = drawn_demands(
    tpch_like(np.random.default_rng(5), sizes_gb=(2,), queries=6), 1024.0, np.random.default_rng(0)
)
CLASSES = (ExecutorClass(3, memory_mb=512.0), ExecutorClass(5, memory_mb=1024.0))
SIZES = (512.0, 1024.0, 2048.0)
CLUSTERS = {
    **{protocol.label: Cluster(num_executors=8, protocol=protocol) for protocol in Protocol},
    "classes": Cluster(num_executors=8, classes=CLASSES),
}
ARRIVALS = ArrivalSettings(num_jobs=4, mean_gap_s=10.0)
each_cluster = pytest.mark.parametrize("cluster", CLUSTERS.values(), ids=CLUSTERS)
each_limits = pytest.mark.parametrize("limits", ["absolute", "relative"])


def env_of(cluster: Cluster, **more: Any) -> SparkEnv:
    more = {"arrivals": ARRIVALS, "illegal": "raise", "max_jobs": 3, "max_stages": 24, **more}
    return SparkEnv(TRACE, cluster, **more)


def sizes_of(env: SparkEnv) -> Any:
    """Values of each part of an action."""
    space = env.action_space
    assert isinstance(space, MultiDiscrete)
    return space.nvec


def drawn(rng: np.random.Generator, masks: Any, sizes: Any) -> Any:
    """An action that the masks allow, each part drawn on its own."""
    parts = np.split(masks, np.cumsum(sizes)[:-1])
    return np.array([rng.choice(np.flatnonzero(part)) for part in parts])


# --- masks ---------------------------------------------------------------------------------------


@each_limits
@each_cluster
def test_no_mask_allows_an_illegal_action(cluster: Cluster, limits: str) -> None:
    """Parts drawn apart under `action_masks()`, as MaskablePPO does; an illegal one would raise."""
    env, rng = env_of(cluster, limits=limits), np.random.default_rng(1)
    steps = 0
    for seed in range(6):
        env.reset(seed=seed)
        over = False
        while not over:
            masks = env.action_masks()
            assert masks.shape == (sizes_of(env).sum(),)
            action = drawn(rng, masks, sizes_of(env))
            if limits == "relative":  # any limit and class is legal on an open slot
                action[1:] = rng.integers(sizes_of(env)[1:])
            seen, _, terminated, truncated, info = env.step(action)
            assert env.observation_space.contains(seen)
            over = terminated or truncated
            steps += 1
        assert info["illegal_actions"] == 0
    assert steps > 100


@each_limits
def test_masks_leave_out_no_slot_and_no_executor(limits: str) -> None:
    """Every open stage may be chosen, with all executors; with relative limits also with one, and
    limits count from the lowest.
    """
    env = env_of(CLUSTERS["executors"], limits=limits)
    shown, _ = env.reset(seed=0)
    assert shown["lowest_limit"][0] == 1
    shown, *_ = env.step(np.array([int(shown["action_mask"].argmax()), 2]))
    assert shown["job_limit"][0] == 3
    slots, numbers = np.split(env.action_masks(), [25])
    assert slots.tolist() == shown["action_mask"].astype(bool).tolist()
    assert numbers[-1]
    lowest = int(shown["lowest_limit"].max())
    assert numbers.tolist() == [limits == "relative" or n >= lowest for n in range(1, 9)]


# --- illegal actions -----------------------------------------------------------------------------


def test_an_illegal_action_is_never_a_silent_pass_by_default() -> None:
    """The first is warned of, and each is counted; "pass" says nothing."""
    closed = np.array([20, 0])
    env = SparkEnv(TRACE, CLUSTERS["executors"], ARRIVALS, max_stages=24)
    env.reset(seed=0)
    with pytest.warns(UserWarning, match=r"Illegal action, counted as a pass.*slot 20.*action_mas"):
        *_, info = env.step(closed)
    assert info["illegal_action"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        shown, *_ = env.step(closed)
        silent = env_of(CLUSTERS["executors"], illegal="pass")
        silent.reset(seed=0)
        silent.step(closed)
    over = False
    while not over:
        shown, _, over, _, info = env.step(np.array([int(shown["action_mask"].argmax()), 7]))
    assert info["illegal_actions"] == 2


# --- scaled observations -------------------------------------------------------------------------


@pytest.mark.parametrize("cluster", [CLUSTERS["session"], CLUSTERS["classes"]])
def test_scaled_observations_lie_between_0_and_1_and_lose_nothing(cluster: Cluster) -> None:
    """Masks stay; executors, slots and amounts can be computed back."""
    plain, scaled = env_of(cluster), env_of(cluster, scaled=True)
    one, other = plain.reset(seed=2)[0], scaled.reset(seed=2)[0]
    rng, over = np.random.default_rng(0), False
    while not over:
        assert scaled.observation_space.contains(other)
        assert all(0 <= values.min() <= values.max() <= 1 for values in other.values())
        for name in ("action_mask", "stage_runnable", "job_mask"):
            np.testing.assert_array_equal(one[name], other[name])
        np.testing.assert_allclose(other["lowest_limit"] * 8, one["lowest_limit"], rtol=1e-6)
        np.testing.assert_allclose(other["stage_job"] * 3 - 1, one["stage_job"], atol=1e-5)
        np.testing.assert_allclose(other["edges"] * 24 - 1, one["edges"], atol=1e-5)
        back = other["job_share"] / (1.0 - other["job_share"].astype(float))
        np.testing.assert_allclose(back, one["job_share"], rtol=1e-4, atol=1e-5)
        work_s = [
            sum(stage.num_tasks * stage.mean_ms for stage in job.stages) / 1000
            for job in TRACE.jobs
        ]
        tasks = [stage.num_tasks for job in TRACE.jobs for stage in job.stages]
        for name, sizes in (("job_remaining_s", work_s), ("stage_tasks", tasks)):
            whole = np.log1p(16 * max(sizes) / np.mean(sizes))
            back = np.expm1(other[name].astype(float) * whole) * np.mean(sizes) / 16
            np.testing.assert_allclose(back, one[name], rtol=1e-4, atol=1e-4)
        action = drawn(rng, plain.action_masks(), sizes_of(plain))
        one, _, terminated, truncated, _ = plain.step(action)
        over = terminated or truncated
        other, *_ = scaled.step(action)


# --- many at once --------------------------------------------------------------------------------


@each_cluster
def test_a_vector_of_environments_is_each_of_them(cluster: Cluster) -> None:
    """Observations, rewards, ends, infos and masks, over the first ends, bit for bit."""
    more = {"limits": "relative", "scaled": cluster.classes is not None}
    singles = [env_of(cluster, **more) for _ in range(3)]
    many = SparkVectorEnv(
        3, trace=TRACE, cluster=cluster, arrivals=ARRIVALS, illegal="raise", max_jobs=3,
        max_stages=24, **more,
    )  # fmt: skip
    shown, infos = many.reset(seed=7)
    assert infos["seed"].tolist() == [7, 8, 9]
    expected = [env.reset(seed=7 + index)[0] for index, env in enumerate(singles)]
    assert_same(shown, expected)
    rng, over, ends = np.random.default_rng(3), np.zeros(3, bool), 0
    while ends < 4:
        actions = np.stack([single.action_space.sample() for single in singles])
        masks = many.action_masks()
        for index in np.flatnonzero(~over).tolist():
            np.testing.assert_array_equal(masks[index], singles[index].action_masks())
            actions[index] = drawn(rng, masks[index], sizes_of(singles[index]))
        shown, rewards, terminated, truncated, infos = many.step(actions)
        for index, env in enumerate(singles):
            if over[index]:
                expected[index], info = env.reset()
                assert (rewards[index], terminated[index], truncated[index]) == (0.0, False, False)
            else:
                expected[index], reward, *ended, info = env.step(actions[index])
                assert rewards[index] == reward
                assert [terminated[index], truncated[index]] == ended
            for name, value in info.items():
                assert infos[name][index] == value
        assert_same(shown, expected)
        over = terminated | truncated
        ends += int(over.sum())


def assert_same(shown: Any, expected: list[Any]) -> None:
    for name, values in shown.items():
        np.testing.assert_array_equal(
            values, np.stack([observation[name] for observation in expected])
        )


@pytest.mark.parametrize("scaled", [False, True])
def test_completions_and_times_of_all_jobs_in_the_info(scaled: bool) -> None:
    """Each completion once, at its step; together they are the times at the end."""
    env = env_of(CLUSTERS["executors"], scaled=scaled)
    shown, _ = env.reset(seed=5)
    assert shown["job_share"][0] == 0.0
    completed, over = [], False
    while not over:
        action = np.array([int(shown["action_mask"].argmax()), 7])
        shown, _, terminated, truncated, info = env.step(action)
        completed += info["completed"]
        over = terminated or truncated
    assert info["jobs_completed"] == len(completed) == 4
    assert sorted(jct_s for _, jct_s in completed) == sorted(info["jct_s"])
    assert info["avg_jct_s"] == pytest.approx(np.mean(info["jct_s"]))
    assert {row for row, _ in completed} <= set(range(len(TRACE.jobs)))


def test_counts_begin_anew_with_each_episode() -> None:
    """Illegal actions of an episode are counted in its own last info, in a vector, too."""
    many = SparkVectorEnv(
        1, trace=TRACE, cluster=CLUSTERS["executors"], arrivals=ARRIVALS, illegal="pass"
    )
    shown, _ = many.reset(seed=1)
    ends = []
    for count in (3, 1):
        left, over = count, False
        while not over:
            slot = 255 if left > 0 else int(shown["action_mask"][0].argmax())
            left -= slot == 255
            shown, _, terminated, truncated, infos = many.step(np.array([[slot, 7]]))
            over = bool((terminated | truncated)[0])
        ends.append(int(infos["illegal_actions"][0]))
        shown, *_ = many.step(np.array([[256, 0]]))
    # An absolute limit of 8 is always legal, so no other action was illegal.
    assert ends == [3, 1]


def test_a_run_is_drawn_as_text_and_as_an_image() -> None:
    """White is idle; a colour for each job that has run."""
    with pytest.raises(SimulationError, match="render_mode must be one of ansi, rgb_array, got"):
        env_of(CLUSTERS["executors"], render_mode="human")
    texts, pictures = (
        env_of(CLUSTERS["executors"], limits="relative", render_mode=mode)
        for mode in ("ansi", "rgb_array")
    )
    with pytest.raises(ResetNeeded):
        texts.render()
    shown, _ = texts.reset(seed=5)
    pictures.reset(seed=5)
    assert "s: 1 jobs in the system, 8 of 8 executors on offer\njob 0:" in texts.render()
    over = False
    while not over:
        action = np.array([int(shown["action_mask"].argmax()), 3])
        shown, _, over, *_ = texts.step(action)
        pictures.step(action)
    assert "0 jobs in the system" in texts.render()
    picture = pictures.render()
    assert picture.shape == (200, 600, 3)
    busy = (picture != 255).any(axis=2)
    colours = np.unique(picture[busy], axis=0)
    assert len(colours) == 4


def test_gymnasium_makes_a_vector_environment() -> None:
    """By id, with the contract of Gymnasium's; every observation is in the space."""
    for env_id in (ENV_ID, SCALED_ENV_ID):
        many = gymnasium.make_vec(
            env_id, 2, vectorization_mode="vector_entry_point", trace=TRACE, arrivals=ARRIVALS
        )
        assert isinstance(many, SparkVectorEnv)
        assert many.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
        shown, _ = many.reset(seed=[3, None])
        assert many.observation_space.contains(shown)
        actions = np.tile([256, 0], (2, 1))
        shown, rewards, terminated, truncated, _ = many.step(actions)
        assert many.observation_space.contains(shown)
        assert rewards.shape == terminated.shape == truncated.shape == (2,)


def test_a_vector_environment_refuses_what_is_wrong() -> None:
    """By one line; an illegal action names its simulation and moves none."""
    with pytest.raises(SimulationError, match="num_envs must be 1 or more, got 0"):
        SparkVectorEnv(0)
    many = SparkVectorEnv(2, trace=TRACE, arrivals=ARRIVALS, max_stages=24, illegal="raise")
    with pytest.raises(ResetNeeded):
        many.action_masks()
    with pytest.raises(SimulationError, match="3 seeds for 2 simulations"):
        many.reset(seed=[1, 2, 3])
    many.reset(seed=0)
    with pytest.raises(InvalidAction):
        many.step(np.full((2, 2), 99))
    before = many.action_masks()
    with pytest.raises(IllegalActionError, match="simulation 1, slot 20"):
        many.step(np.array([[24, 0], [20, 0]]))
    np.testing.assert_array_equal(many.action_masks(), before)
