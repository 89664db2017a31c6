"""Credit: how much better each plan turned out than expected, in stories solved on paper."""

from __future__ import annotations

import numpy as np
import pytest

from decima.training.config import CreditConfig
from decima.training.costs import cost_at
from decima.training.credit import (
    VALUE_UNIT_S,
    Credit,
    Finished,
    of_branches,
    of_returns,
    to_spread,
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


def test_tail_costs_squares_of_ages() -> None:
    """10^2 + 8^2 against 12^2 + 2^2, over 100 s; at 6 s the ages are 6 and 2 in both."""
    times = seconds(6, 12)
    assert cost_at("tail", A_FIRST, times).tolist() == pytest.approx([0.40, 1.64])
    assert cost_at("tail", B_FIRST, times).tolist() == pytest.approx([0.40, 1.48])


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


# --- branches ------------------------------------------------------------------------------------


def test_a_branch_is_better_by_what_the_others_cost_more() -> None:
    """At 4 s of the story: a first costs 18 s, b first 14 s, a again 18 s; then a state with two.

    b first: the others cost 18 on average, 4 more. a first: (18 + 14) / 2 - 18 = -2.
    """
    cost = seconds(18, 14, 18, 5, 8)
    found = of_branches(cost, np.array([3, 3, 3, 9, 9]))
    assert found.tolist() == [-2, 4, -2, 3, -3]


def test_plans_that_turn_out_alike_have_no_advantage() -> None:
    """Nor does it matter what the state costs."""
    assert of_branches(seconds(7, 7, 900, 900), np.array([0, 0, 1, 1])).tolist() == [0] * 4


def test_spread_makes_settings_count_alike() -> None:
    """Root mean squares are sqrt(12.5) of (3, 4), and the same of a hundredfold; zeros stay."""
    group = np.array([0, 1, 0, 1, 2, 2])
    found = to_spread(seconds(3, 300, -4, -400, 0, 0), group)
    size = np.sqrt(12.5)
    assert found.tolist() == pytest.approx([3 / size, 3 / size, -4 / size, -4 / size, 0, 0])


def test_spread_cuts_off_what_is_far_out() -> None:
    """One of a hundred holds it all: it is 10 root mean squares, of which 4 are left."""
    advantage = np.zeros(100)
    advantage[7] = -50.0
    assert to_spread(advantage, np.zeros(100, np.int64))[7] == -4.0
    assert to_spread(advantage, np.zeros(100, np.int64), most=20.0)[7] == pytest.approx(-10.0)


# --- returns -------------------------------------------------------------------------------------

# Two rollouts of the story, with decisions at 0 s and 4 s. Costs from one to the next, or the end
# at 12 s: 4 and 14 s where a goes first, 4 and 10 s where b does. Decisions lie mixed, as steps of
# simulations in lockstep do.
PLAYED = Finished(
    lane=np.array([0, 1, 0, 1]),
    time_s=seconds(0, 0, 4, 4),
    value=seconds(-1, -2, -3, -4) / VALUE_UNIT_S,
    states=[A_FIRST, B_FIRST],
    end_s=seconds(12, 12),
)
SAME = np.array([0, 0])
SEQUENCE_COST_S = (18 + 14) / 2


def credit(baseline: str, sequence: list[int] | None = None, **changes: object) -> Credit:
    config = CreditConfig(method="returns", baseline=baseline, **changes)  # type: ignore[arg-type]
    lanes = SAME if sequence is None else np.array(sequence)
    return of_returns(config, PLAYED, lanes, rate=-1.5)


def test_rewards_are_minus_what_time_costs() -> None:
    """And what the critic is to learn is what comes after, in its own unit."""
    found = credit("none")
    assert found.reward.tolist() == [-4, -4, -14, -10]
    assert (found.target * VALUE_UNIT_S).tolist() == pytest.approx([-18, -14, -14, -10])


def test_without_a_baseline_returns_count_as_shares_of_what_the_sequence_costs() -> None:
    """16 s on average over both rollouts; or 18 s and 14 s where each has a sequence of its own."""
    expected = seconds(-18, -14, -14, -10)
    found = credit("none").advantage
    np.testing.assert_allclose(found, expected / SEQUENCE_COST_S)
    apart = credit("none", [0, 1]).advantage
    np.testing.assert_allclose(apart, expected / seconds(18, 14, 18, 14))


def test_the_input_baseline_is_the_other_rollout_of_the_sequence() -> None:
    """At 0 s -14 against -18 and at 4 s -10 against -14: 4 s better or worse each."""
    found = credit("input").advantage
    np.testing.assert_allclose(found, seconds(-4, 4, -4, 4) / SEQUENCE_COST_S)


def test_the_mean_baseline_is_that_of_the_step() -> None:
    """-16 at the first, -12 at the second, the rollout itself included: 2 s better or worse."""
    found = credit("mean").advantage
    np.testing.assert_allclose(found, seconds(-2, 2, -2, 2) / SEQUENCE_COST_S)


def test_the_critics_baseline_is_what_it_expected() -> None:
    """-1, -2, -3, -4 s."""
    found = credit("critic").advantage
    np.testing.assert_allclose(found, seconds(-17, -12, -11, -6) / SEQUENCE_COST_S)


def test_differential_returns_lack_the_average_reward() -> None:
    """-1.5 a second: -4 + 6 and -14 + 12, or -10 + 12, are earned beyond it."""
    found = credit("none", differential=True)
    np.testing.assert_allclose(found.advantage, seconds(0, 4, -2, 2) / SEQUENCE_COST_S)
    assert found.reward.tolist() == [-4, -4, -14, -10]


def test_a_horizon_discounts_what_comes_later() -> None:
    """The second reward comes 4 s after the first: at a horizon of 4 s it counts 1/e."""
    found = credit("none", horizon_s=4.0)
    expected = seconds(-4 - 14 / np.e, -4 - 10 / np.e, -14, -10)
    np.testing.assert_allclose(found.advantage, expected / SEQUENCE_COST_S)


def test_another_objective_gives_other_rewards() -> None:
    """Tail: 0.16 to 4 s, and 1.64 or 1.48 in all."""
    found = credit("none", objective="tail")
    assert found.reward.tolist() == pytest.approx([-0.16, -0.16, -1.48, -1.32])


def test_a_rollout_without_a_decision_has_no_credit() -> None:
    """Its sequence's other rollout does; alone there is nothing to compare with."""
    played = PLAYED._replace(lane=np.array([1, 1]), time_s=seconds(0, 4), value=seconds(0, 0))
    found = of_returns(CreditConfig(method="returns", baseline="input"), played, SAME, 0.0)
    # A rollout without decisions returned nothing at any time; half of 14 s is the sequence's cost.
    np.testing.assert_allclose(found.advantage, seconds(-14, -10) / 7)
