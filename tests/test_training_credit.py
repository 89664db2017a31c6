"""Credit: how much better each plan turned out than expected, in stories solved on paper."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from decima.agent.recording import Decisions
from decima.objectives import OBJECTIVES
from decima.rl.returns import generalised_advantage
from decima.training.config import CreditConfig
from decima.training.credit import (
    Credit,
    Reference,
    assign_credit,
    cost_at,
    setting_weights,
    standardised,
)
from spark_sim import Cluster
from spark_sim.tables import State
from tests.stories import build, job, stage
from traces.numbers import Float64

# Two jobs on one executor that moves at no cost: a of 10 s comes at 0, b of 2 s at 4 s.
JOBS = [job("a", stage("x", 5, 2_000)), job("b", stage("y", 1, 2_000))]
# a first: it ends at 10 s, b at 12 s, in the system for 10 + 8 s.
# b as soon as a task of a ends: at 4 s. b ends at 6 s, a at 12 s: 12 + 2 s.


def ended(a_end_s: float, b_end_s: float) -> State:
    """The final tables of a run in which the jobs were complete then; NaN: they never were."""
    state = build(JOBS, Cluster(num_executors=1), arrival_ms=[0, 4_000]).state
    state.jobs["completion_ms"] = [1_000 * a_end_s, 1_000 * b_end_s]
    state.clock["time_ms"] = 12_000
    return state


A_FIRST, B_FIRST = ended(10, 12), ended(12, 6)


def seconds(*values: float) -> Float64:
    return np.array(values, np.float64)


def cost(objective: str, state: State, *times: float) -> list[float]:
    return list(cost_at(OBJECTIVES[objective], state, seconds(*times)))


def decisions(lane: list[int], time_s: Float64, value: Float64) -> Decisions:
    counts = np.zeros(len(lane), np.int64)
    no_columns = np.zeros((len(lane), 0), np.float32)
    return Decisions(np.array(lane), time_s, value, no_columns, counts, counts, counts, counts)


# --- costs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("objective", "a_first", "b_first"),
    [
        # To 4 s only a is there; then both; after 10 s, or 6 s, one is left; nothing after 12 s.
        ("avg_jct", [0, 4, 8, 16, 18, 18], [0, 4, 8, 12, 14, 14]),
        # 10^2 + 8^2 against 12^2 + 2^2, over 100 s; at 6 s the ages are 6 and 2 in both.
        ("rms_jct", [0, 0.16, 0.4, 1.36, 1.64, 1.64], [0, 0.16, 0.4, 1.04, 1.48, 1.48]),
        ("makespan", [0, 4, 6, 10, 12, 12], [0, 4, 6, 10, 12, 12]),
    ],
)
def test_costs_up_to_a_time(objective: str, a_first: list[float], b_first: list[float]) -> None:
    times = (0, 4, 6, 10, 12, 99)
    assert cost(objective, A_FIRST, *times) == pytest.approx(a_first)
    assert cost(objective, B_FIRST, *times) == pytest.approx(b_first)


def test_makespan_costs_nothing_between_two_jobs() -> None:
    """a to 3 s, b from 4 to 6 s."""
    assert cost("makespan", ended(3, 6), 2, 3, 3.5, 5, 6, 9) == [2, 3, 3, 4, 5, 5]


def test_jobs_never_completed_cost_as_long_as_they_are_there() -> None:
    """a until the end, whenever that is; b, that is not there yet, nothing."""
    state = ended(np.nan, np.nan)
    assert cost("avg_jct", state, 3, 30) == [3, 30 + 26]
    assert cost("makespan", state, 3, 30) == [3, 30]


# --- advantages of unit size ---------------------------------------------------------------------


def test_standardised_advantages_have_mean_0_and_deviation_1() -> None:
    """1, 2 and 6: their mean is 3, their deviation the root of 14 / 3."""
    values = standardised(seconds(1, 2, 6))
    assert values.tolist() == pytest.approx((seconds(-2, -1, 3) / np.sqrt(14 / 3)).tolist())
    assert standardised(seconds(100, 200, 600)).tolist() == pytest.approx(values.tolist())


def test_standardising_cuts_off_what_is_far_out() -> None:
    """One of a hundred holds it all: it is nearly 10 deviations away, of which 4 are left."""
    advantage = np.zeros(100)
    advantage[7] = -50.0
    assert standardised(advantage)[7] == -4.0
    assert standardised(advantage, most=20.0)[7] == pytest.approx(-np.sqrt(99))


def test_settings_weigh_alike() -> None:
    """Three plans and nine: twice as much as the mean setting for each of the few, 2/3 of it for
    each of the many, so half of the sum each. A setting alone has weight 1.
    """
    assert setting_weights([3, 9]) == pytest.approx([2.0, 2 / 3])
    assert setting_weights([5]) == [1.0]
    assert setting_weights([]) == []
    assert setting_weights([0, 4])[1] == pytest.approx(0.5)


def test_equal_advantages_teach_nothing() -> None:
    """Zeros, where a deviation of 0 would divide."""
    assert standardised(seconds(7, 7, 7)).tolist() == [0, 0, 0]
    assert standardised(seconds()).tolist() == []


# --- a critic ------------------------------------------------------------------------------------


def test_generalised_advantages_by_hand() -> None:
    """Rewards 1, 2, 4 at times 0, 2, 3, until 7; values 5, 6, 7.

    Without a horizon the errors are 1 + 6 - 5 = 2, 2 + 7 - 6 = 3 and 4 - 7 = -3. With a trace of 1
    the later ones count e^-2 at the first and e^-1 at the second decision.
    """
    reward, elapsed, value = seconds(1, 2, 4), seconds(2, 1, 4), seconds(5, 6, 7)
    advantage = generalised_advantage(reward, elapsed, value, None, 1.0)
    second = 3 - 3 / np.e
    np.testing.assert_allclose(advantage, [2 + second / np.e**2, second, -3])
    # A horizon of 2 discounts values and advantages: e^-1 over the first 2 s, e^-1/2 over 1 s.
    advantage = generalised_advantage(reward, elapsed, value, 2.0, 1.0)
    errors = 1 + 6 / np.e - 5, 2 + 7 * np.exp(-0.5) - 6, -3
    second = errors[1] + errors[2] * np.exp(-0.5 - 1)
    np.testing.assert_allclose(advantage, [errors[0] + second * np.exp(-1 - 2), second, -3])


# --- returns -------------------------------------------------------------------------------------

# Two rollouts of the story, with decisions at 0 s and 4 s. Costs from one to the next, or the end
# at 12 s: 4 and 14 s where a goes first, 4 and 10 s where b does. Decisions lie mixed, as steps of
# simulations in lockstep do.
REFERENCE = Reference(jct_s=10.0, jobs=2.0)
"""strict fair's average JCT, and how many jobs are there with it: values are in 80 s"""
DECISIONS = decisions(
    [0, 1, 0, 1], seconds(0, 0, 4, 4), seconds(-1, -2, -3, -4) / REFERENCE.value_s
)
RATE = (18 + 14) / (12 + 12)
"""what a second of the sequence costs, over both rollouts"""
UNIT_S = RATE * REFERENCE.jct_s
"""what advantages are divided by"""


def credit(
    sequence: tuple[int, int] = (0, 0),
    objective: str = "avg_jct",
    played: Decisions = DECISIONS,
    states: tuple[State, State] = (A_FIRST, B_FIRST),
    **changes: Any,
) -> Credit:
    plain = {"critic": False, "horizon": None, "trace": None, "baseline": "none"}
    config = CreditConfig(**(plain | changes))
    return assign_credit(
        config,
        OBJECTIVES[objective],
        played,
        states,
        sequence=np.array(sequence),
        rate=-1.5,
        reference=REFERENCE,
    )


E = float(np.e)


@pytest.mark.parametrize(
    ("changes", "expected_s"),
    [
        # Returns, by what a second costs: 32 s in 24 s of both rollouts.
        ({}, [-18, -14, -14, -10]),
        # Less the other rollout of the sequence: at 0 s -14 against -18, at 4 s -10 against -14.
        ({"baseline": "input"}, [-4, 4, -4, 4]),
        # Less the mean of the step, itself included: -16, then -12.
        ({"baseline": "mean"}, [-2, 2, -2, 2]),
        # Less what the critic expected: -1, -2, -3, -4 s.
        ({"critic": True}, [-17, -12, -11, -6]),
        # With a trace of 4 s the second error counts 1/e at the first decision.
        ({"critic": True, "trace": 0.4}, [-6 - 11 / E, -6 - 6 / E, -11, -6]),
        # Beyond -1.5 a second: -4 + 6 and -14 + 12, or -10 + 12.
        ({"differential": True}, [0, 4, -2, 2]),
        # At a horizon of 0.4 x 10 s what comes 4 s later counts 1/e.
        ({"horizon": 0.4}, [-4 - 14 / E, -4 - 10 / E, -14, -10]),
    ],
)
def test_credit_of_two_rollouts_by_hand(changes: dict[str, Any], expected_s: list[float]) -> None:
    credited = credit(**changes)
    np.testing.assert_allclose(credited.advantage, seconds(*expected_s) / UNIT_S, atol=1e-12)
    assert credited.reward.tolist() == [-4, -4, -14, -10]


def test_what_the_critic_is_to_learn_is_what_comes_after_in_its_own_unit() -> None:
    assert REFERENCE.value_s == 4 * 10 * 2
    assert (credit().target * 80).tolist() == pytest.approx([-18, -14, -14, -10])


def test_sequences_of_their_own_have_a_cost_of_their_own() -> None:
    """18 s and 14 s in 12 s each."""
    expected = seconds(-18, -14, -14, -10) / REFERENCE.jct_s / (seconds(18, 14, 18, 14) / 12)
    np.testing.assert_allclose(credit((0, 1)).advantage, expected)


def test_another_objective_gives_other_rewards() -> None:
    """Tail: 0.16 to 4 s, and 1.64 or 1.48 in all."""
    credited = credit(objective="rms_jct")
    assert credited.reward.tolist() == pytest.approx([-0.16, -0.16, -1.48, -1.32])


def test_a_rollout_without_a_decision_has_no_credit() -> None:
    """Its sequence's other rollout does; alone there is nothing to compare with."""
    credited = credit(baseline="input", played=decisions([1, 1], seconds(0, 4), seconds(0, 0)))
    # A rollout without decisions returned nothing at any time. The sequence's 14 s lie in 24 s.
    np.testing.assert_allclose(credited.advantage, seconds(-14, -10) / 10 / (14 / 24))


# --- episodes of any length ----------------------------------------------------------------------


@pytest.mark.parametrize("jobs", [1, 40])
def test_a_short_episode_does_not_dominate(jobs: int) -> None:
    """Two rollouts of jobs that come every 20 s, each of 10 s, or of 11 s: each plan is 1 s better
    or worse, and counts as much whether there is one job or forty.

    Divided by what its whole sequence costs, the single plan would count forty times as much.
    """
    every = [job(f"j{number}", stage("x", 1, 10_000)) for number in range(jobs)]
    begin_s = 20.0 * np.arange(jobs)

    def lasting(length_s: float) -> State:
        state = build(every, Cluster(num_executors=1), arrival_ms=(1_000 * begin_s).tolist()).state
        state.jobs["completion_ms"] = 1_000 * (begin_s + length_s)
        state.clock["time_ms"] = 20_000 * jobs
        return state

    lane = np.repeat([0, 1], jobs).tolist()
    played = decisions(lane, np.tile(begin_s, 2), np.zeros(2 * jobs))
    credited = credit(
        baseline="input", played=played, states=(lasting(10), lasting(11)), horizon=0.05
    )
    np.testing.assert_allclose(credited.advantage, np.repeat([1, -1], jobs) / 10 / (21 / 40))
