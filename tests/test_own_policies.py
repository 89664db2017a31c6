"""Policies of one's own in an evaluation."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from decima import Policy, evaluate
from decima.errors import ConfigError
from decima.evaluation import simulate
from decima.evaluation.runner import Workload
from decima.evaluation.timeline import timeline_table
from decima.report.results import results_of
from decima.rl.statistics import difference_percent
from spark_sim import Action, IllegalActionError, Observation
from tests.commands import small_config


class Greedy:
    """The first open stage, with a limit that may be wrong."""

    name = "my-greedy"

    def __init__(self, limit: int) -> None:
        self._limit = limit

    def decide(self, observation: Observation) -> Action:
        return Action(int(observation.open_stages()[0]), self._limit)


def test_any_object_that_decides_is_a_policy(trace_file: Path) -> None:
    """A few lines of Python are measured as the heuristics are."""
    settings = small_config(trace_file)
    policy: Policy = Greedy(settings.executors)
    run = simulate(Workload.load(settings.trace), settings, policy, 0)
    assert run.policy == "my-greedy"
    assert run.metrics.unfinished == 0
    assert run.policy_cpu_s >= 0


class Polite(Greedy):
    """A limit that is always right, from nothing but the cluster."""

    name = "polite"

    def __init__(self) -> None:
        super().__init__(0)

    def decide(self, observation: Observation) -> Action:
        stage = int(observation.open_stages()[0])
        return Action(stage, int(max(observation.legal_limits(stage))))


def test_policies_of_ones_own_stand_in_the_report(trace_file: Path) -> None:
    """Paired with the others on the same sequences, in the JSON, and in the timeline."""
    settings = small_config(trace_file, policies=("strict_fair", "fifo"), sequences=3)
    told: list[tuple[int, int]] = []
    report = evaluate(
        settings, own=(Polite,), timelines=(0,), progress=lambda *one: told.append(one)
    )
    assert list(report.policies) == ["strict_fair", "fifo", "polite"]
    assert told[-1] == (9, 9)
    workload = Workload.load(settings.trace)
    alone = [simulate(workload, settings, Polite(), k).metrics.avg_jct_s for k in range(3)]
    assert report.policies["polite"].avg_jct_s.tolist() == alone
    expected = difference_percent(np.array(alone), report.reference.avg_jct_s)
    assert report.difference("polite") == expected
    results = results_of(report.to_json(), "here")
    assert list(results.policies) == ["strict_fair", "fifo", "polite"]
    assert "polite" in timeline_table(report)["policy"].to_pylist()
    with pytest.raises(ConfigError, match="'polite' is there already"):
        evaluate(settings, own=(Polite, Polite))


def test_an_answer_that_is_no_action_names_the_policy(trace_file: Path) -> None:
    """As where a `return` was forgotten."""
    settings = small_config(trace_file)
    policy = Greedy(1)
    policy.decide = lambda _: None  # type: ignore[method-assign,assignment,return-value]
    with pytest.raises(TypeError, match="policy 'my-greedy': decide gave None, not an Action"):
        simulate(Workload.load(settings.trace), settings, policy, 0)


def test_an_illegal_action_names_the_policy_and_the_rule(trace_file: Path) -> None:
    """A limit beyond the cluster is refused in one line."""
    settings = small_config(trace_file)
    with pytest.raises(IllegalActionError, match=r"^policy 'my-greedy': stage 0: limit 5 must"):
        simulate(Workload.load(settings.trace), settings, Greedy(5), 0)
