"""Credit: how much better each plan turned out than expected, in stories solved on paper."""

from __future__ import annotations

import numpy as np
import pytest

from decima.rl.returns import generalised_advantage
from decima.training.config import CreditConfig
from decima.training.costs import cost_at
from decima.training.credit import (
    Credit,
    Finished,
    Reference,
    of_returns,
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
    return state


A_FIRST, B_FIRST = ended(10, 12), ended(12, 6)


def seconds(*values: float) -> Float64:
    return np.array(values, np.float64)


# --- costs ---------------------------------------------------------------------------------------


def test_average_jct_costs_the_time_in_the_system() -> None:
    """To 4 s only a is there; then both; after 10 s, or 6 s, one is left; nothing after 12 s."""
    times = seconds(0, 4, 6, 10, 12, 99)
    assert cost_at("avg_jct", A_FIRST, times).tolist() == [0, 4, 8, 16, 18, 18]
    assert cost_at("avg_jct", B_FIRST, times).tolist() == [0, 4, 8, 12, 14, 14]


def test_rms_jct_costs_squares_of_ages() -> None:
    """10^2 + 8^2 against 12^2 + 2^2, over 100 s; at 6 s the ages are 6 and 2 in both."""
    times = seconds(6, 12)
    assert cost_at("rms_jct", A_FIRST, times).tolist() == pytest.approx([0.40, 1.64])
    assert cost_at("rms_jct", B_FIRST, times).tolist() == pytest.approx([0.40, 1.48])


def test_makespan_costs_the_time_with_jobs_in_the_system() -> None:
    """12 s in both orders; a gap between two jobs costs nothing: a to 3 s, b from 4 to 6 s."""
    times = seconds(2, 3, 3.5, 5, 6, 9)
    assert cost_at("makespan", A_FIRST, seconds(5, 20)).tolist() == [5, 12]
    assert cost_at("makespan", B_FIRST, seconds(5, 20)).tolist() == [5, 12]
    assert cost_at("makespan", ended(3, 6), times).tolist() == [2, 3, 3, 4, 5, 5]


def test_jobs_never_completed_cost_as_long_as_they_are_there() -> None:
    """a until the end, whenever that is; b, that is not there yet, nothing."""
    state = ended(np.nan, np.nan)
    assert cost_at("avg_jct", state, seconds(3, 30)).tolist() == [3, 30 + 26]
    assert cost_at("makespan", state, seconds(3, 30)).tolist() == [3, 30]


# --- advantages of unit size ---------------------------------------------------------------------


def test_standardised_advantages_have_mean_0_and_deviation_1() -> None:
    """1, 2 and 6: their mean is 3, their deviation the root of 14 / 3."""
    found = standardised(seconds(1, 2, 6))
    assert found.tolist() == pytest.approx((seconds(-2, -1, 3) / np.sqrt(14 / 3)).tolist())
    assert standardised(seconds(100, 200, 600)).tolist() == pytest.approx(found.tolist())


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
    found = generalised_advantage(reward, elapsed, value, None, 1.0)
    second = 3 - 3 / np.e
    np.testing.assert_allclose(found, [2 + second / np.e**2, second, -3])
    # A horizon of 2 discounts values and advantages: e^-1 over the first 2 s, e^-1/2 over 1 s.
    found = generalised_advantage(reward, elapsed, value, 2.0, 1.0)
    errors = 1 + 6 / np.e - 5, 2 + 7 * np.exp(-0.5) - 6, -3
    second = errors[1] + errors[2] * np.exp(-0.5 - 1)
    np.testing.assert_allclose(found, [errors[0] + second * np.exp(-1 - 2), second, -3])


def test_without_a_trace_nothing_is_left_to_the_critic() -> None:
    """The advantage is the return less the value: 7 - 5, 6 - 6, 4 - 7."""
    found = generalised_advantage(seconds(1, 2, 4), seconds(2, 1, 4), seconds(5, 6, 7), None, None)
    assert found.tolist() == [2, 0, -3]


# --- returns -------------------------------------------------------------------------------------

# Two rollouts of the story, with decisions at 0 s and 4 s. Costs from one to the next, or the end
# at 12 s: 4 and 14 s where a goes first, 4 and 10 s where b does. Decisions lie mixed, as steps of
# simulations in lockstep do.
REFERENCE = Reference(jct_s=10.0, jobs=2.0)
"""strict fair's average JCT, and how many jobs are there with it: values are in 80 s"""
PLAYED = Finished(
    lane=np.array([0, 1, 0, 1]),
    time_s=seconds(0, 0, 4, 4),
    value=seconds(-1, -2, -3, -4) / REFERENCE.value_s,
    states=[A_FIRST, B_FIRST],
    end_s=seconds(12, 12),
)
SAME = np.array([0, 0])
RATE = (18 + 14) / (12 + 12)
"""what a second of the sequence costs, over both rollouts"""
UNIT_S = RATE * REFERENCE.jct_s
"""what advantages are divided by"""


def credit(
    baseline: str,
    sequence: list[int] | None = None,
    objective: str = "avg_jct",
    **changes: object,
) -> Credit:
    plain = {"critic": False, "horizon": None, "trace": None, "baseline": baseline}
    config = CreditConfig(**(plain | changes))  # type: ignore[arg-type]
    lanes = SAME if sequence is None else np.array(sequence)
    return of_returns(config, objective, PLAYED, lanes, -1.5, REFERENCE)


def test_rewards_are_minus_what_time_costs() -> None:
    """And what the critic is to learn is what comes after, in its own unit."""
    found = credit("none")
    assert found.reward.tolist() == [-4, -4, -14, -10]
    assert REFERENCE.value_s == 4 * 10 * 2
    assert (found.target * 80).tolist() == pytest.approx([-18, -14, -14, -10])


def test_without_a_baseline_returns_count_by_what_a_second_costs() -> None:
    """32 s in 24 s of both rollouts; or 18 s and 14 s in 12 s each, as sequences of their own."""
    expected = seconds(-18, -14, -14, -10) / REFERENCE.jct_s
    np.testing.assert_allclose(credit("none").advantage, expected / RATE)
    apart = credit("none", [0, 1]).advantage
    np.testing.assert_allclose(apart, expected / (seconds(18, 14, 18, 14) / 12))


def test_the_input_baseline_is_the_other_rollout_of_the_sequence() -> None:
    """At 0 s -14 against -18 and at 4 s -10 against -14: 4 s better or worse each."""
    np.testing.assert_allclose(credit("input").advantage, seconds(-4, 4, -4, 4) / UNIT_S)


def test_the_mean_baseline_is_that_of_the_step() -> None:
    """-16 at the first, -12 at the second, the rollout itself included: 2 s better or worse."""
    np.testing.assert_allclose(credit("mean").advantage, seconds(-2, 2, -2, 2) / UNIT_S)


def test_what_the_critic_expected_is_subtracted() -> None:
    """-1, -2, -3, -4 s; with a trace of 4 s the second error counts 1/e at the first decision."""
    found = credit("none", critic=True).advantage
    np.testing.assert_allclose(found, seconds(-17, -12, -11, -6) / UNIT_S)
    found = credit("none", critic=True, trace=0.4).advantage
    first = seconds(-4 - 3 + 1, -4 - 4 + 2) + seconds(-11, -6) / np.e
    np.testing.assert_allclose(found, np.append(first, (-11, -6)) / UNIT_S)


def test_differential_returns_lack_the_average_reward() -> None:
    """-1.5 a second: -4 + 6 and -14 + 12, or -10 + 12, are earned beyond it."""
    found = credit("none", differential=True)
    np.testing.assert_allclose(found.advantage, seconds(0, 4, -2, 2) / UNIT_S)
    assert found.reward.tolist() == [-4, -4, -14, -10]


def test_a_horizon_is_in_units_of_strict_fairs_jct() -> None:
    """The second reward comes 4 s after the first: at a horizon of 0.4 x 10 s it counts 1/e."""
    found = credit("none", horizon=0.4)
    expected = seconds(-4 - 14 / np.e, -4 - 10 / np.e, -14, -10)
    np.testing.assert_allclose(found.advantage, expected / UNIT_S)


def test_another_objective_gives_other_rewards() -> None:
    """Tail: 0.16 to 4 s, and 1.64 or 1.48 in all."""
    found = credit("none", objective="rms_jct")
    assert found.reward.tolist() == pytest.approx([-0.16, -0.16, -1.48, -1.32])


def test_a_rollout_without_a_decision_has_no_credit() -> None:
    """Its sequence's other rollout does; alone there is nothing to compare with."""
    played = PLAYED._replace(lane=np.array([1, 1]), time_s=seconds(0, 4), value=seconds(0, 0))
    config = CreditConfig(critic=False, horizon=None, trace=None)
    found = of_returns(config, "avg_jct", played, SAME, 0.0, REFERENCE)
    # A rollout without decisions returned nothing at any time. The sequence's 14 s lie in 24 s.
    np.testing.assert_allclose(found.advantage, seconds(-14, -10) / 10 / (14 / 24))


# --- episodes of any length ----------------------------------------------------------------------


def episode(jobs: int) -> Finished:
    """Two rollouts of jobs that come every 20 s, each of 10 s, in the other rollout of 11 s.

    A decision for each job as it comes.
    """
    every = [job(f"j{number}", stage("x", 1, 10_000)) for number in range(jobs)]
    begin_s = 20.0 * np.arange(jobs)
    states = []
    for length_s in (10.0, 11.0):
        state = build(every, Cluster(num_executors=1), arrival_ms=(1_000 * begin_s).tolist()).state
        state.jobs["completion_ms"] = 1_000 * (begin_s + length_s)
        states.append(state)
    ends_s = seconds(20, 20) * jobs
    lane = np.repeat([0, 1], jobs)
    return Finished(lane, np.tile(begin_s, 2), np.zeros(2 * jobs), states, ends_s)


def test_a_short_episode_does_not_dominate() -> None:
    """Of one job or forty: each plan is 1 s better or worse, and counts as much.

    Divided by what its whole sequence costs, the single plan would count forty times as much.
    """
    config = CreditConfig(critic=False, horizon=0.05, trace=None)
    for jobs in (1, 40):
        found = of_returns(config, "avg_jct", episode(jobs), SAME, 0.0, REFERENCE).advantage
        np.testing.assert_allclose(found, np.repeat([1, -1], jobs) / 10 / (21 / 40))
