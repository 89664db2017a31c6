"""Fitting the scoring rule: it improves, it repeats itself, and it survives being stopped."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from decima.errors import ConfigError
from decima.evaluation.runner import Workload, prepare
from decima.heuristics.es_rule import PARAMETERS
from decima.objectives import objective_named
from decima.registry import HEURISTICS, Heuristic
from decima.rl.parallel.local import HERE, LocalPool
from decima.training.rule_fit.config import RuleFitConfig
from decima.training.rule_fit.fit import Budget, FittedRule, fit_rule
from decima.training.rule_fit.history import History, read_history
from decima.training.rule_fit.search import Search, free_weights, start
from decima.training.tuning import FIRST_TRAINING_SEQUENCE, Candidates, read_tuned
from spark_sim.metrics import measure
from tests.commands import Command, raises_one_line, refused, small_config, succeeded

Json = dict[str, Any]


@pytest.fixture
def config(trace_file: Path) -> RuleFitConfig:
    """Batches of 20 small jobs on eight executors, compared every second generation."""
    setting = small_config(trace_file, arrivals="batch", jobs=20, executors=8)
    return RuleFitConfig((setting,), sequences=2, pairs=4, validation=4, validate_every=2)


def fitted(config: RuleFitConfig, generations: int, **more: Any) -> FittedRule:
    return fit_rule(config, Budget(generations), **more)


def candidates_of(config: RuleFitConfig) -> Candidates:
    return Candidates(config.workloads(), HERE, objective_named(config.objective))


@pytest.mark.slow
def test_a_fit_improves_on_its_start(config: RuleFitConfig) -> None:
    """By more than 1 % in thirty generations, on the sequences that choose the result."""
    more = replace(config, pairs=8, sequences=4)
    fit = fitted(more, 30)
    assert fit.score < fit.start_score - 0.01
    assert fit.best_generation > 0


def test_a_fit_keeps_the_shipped_weights_unless_it_beats_them(config: RuleFitConfig) -> None:
    """On sequences that chose nothing: the best of many validations is good by chance, too."""
    fit = fitted(config, 1)
    shipped = HEURISTICS["es_rule"].defaults
    better = replace(fit, shipped_logs=fit.found_logs + 0.01)
    assert (better.parameters, better.to_json()["held_back"]["kept"]) == (fit.found, "found")
    worse = replace(fit, shipped_logs=fit.found_logs - 0.01)
    assert (worse.parameters, worse.to_json()["held_back"]["kept"]) == (shipped, "shipped")
    assert worse.to_json()["parameters"] == shipped


def test_a_fit_is_tested_on_sequences_that_did_not_choose_it(config: RuleFitConfig) -> None:
    fit = fitted(config, 1)
    both = [fit.found, HEURISTICS["es_rule"].defaults]
    expected = candidates_of(config).scores("es_rule", both, config.held_back_numbers())
    assert [fit.held_back_score, fit.shipped_score] == pytest.approx(expected)
    assert fit.held_back_score != fit.score
    content = fit.to_json()["held_back"]
    assert content["percent_against_shipped"] == pytest.approx(
        100 * (expected[0] / expected[1] - 1)
    )
    assert (
        content["ci95_percent"][0]
        <= content["percent_against_shipped"]
        <= content["ci95_percent"][1]
    )
    assert (content["avg_jct_ratio"], content["sequences"]) == (
        fit.held_back_score,
        config.validation,
    )


def test_with_classes_their_rule_is_fitted(config: RuleFitConfig) -> None:
    """To the makespan here; the rest of `es_classes` stays as it ships."""
    setting = replace(config.settings[0], executors=8, classes="1x4,4x4", demands="drawn")
    more = replace(config, settings=(setting, setting), objective="makespan", start="shipped")
    fit = fitted(more, 2)
    shipped = HEURISTICS["es_classes"].defaults
    changed = [name for name, value in fit.found.items() if value != shipped[name]]
    assert more.policy == "es_classes"
    assert set(changed) <= set(PARAMETERS)
    assert list(fit.found) == list(shipped)
    assert fit.to_json()["training"]["makespan_ratio"] == fit.score <= fit.start_score
    assert len({workload.seed for workload in more.workloads()}) == 2
    ratios = []
    for drawn in more.workloads():
        for number in more.held_back_numbers():
            ends_s = []
            for name in ("es_classes", "strict_fair"):
                simulator = prepare(Workload.of(drawn), drawn, number)
                Heuristic(name).play(simulator)
                ends_s.append(measure(simulator.state).makespan_s)
            ratios.append(ends_s[0] / ends_s[1])
    assert fit.shipped_score == pytest.approx(float(np.exp(np.log(ratios).mean())))


def test_settings_that_cannot_be_fitted_are_refused(config: RuleFitConfig) -> None:
    both = (config.settings[0], replace(config.settings[0], classes="1x4,4x4", demands="drawn"))
    with pytest.raises(ConfigError, match="some settings have classes of executors and some"):
        replace(config, settings=both)
    with pytest.raises(ConfigError, match="never end"):
        Budget()


def test_a_fit_depends_on_its_seed_alone(config: RuleFitConfig) -> None:
    """Not on the number of processes, nor on numpy's global generator."""
    global_state = np.random.get_state()  # noqa: NPY002 - that it is not touched is what is tested
    first = scores_of(config)
    assert str(np.random.get_state()) == str(global_state)  # noqa: NPY002

    with LocalPool(2) as pool:
        assert scores_of(config, pool=pool) == first
    assert scores_of(replace(config, seed=1)) != first


def scores_of(config: RuleFitConfig, **more: Any) -> list[tuple[float, ...]]:
    """Of all candidates of two generations."""
    seen: list[History] = []
    fitted(config, 2, progress=seen.append, **more)
    return [row.scores for row in seen[-1].generations]


def test_a_stopped_fit_goes_on_to_the_same_result(config: RuleFitConfig, tmp_path: Path) -> None:
    """Stopped after three generations and after five, or never: the same weights."""
    path = tmp_path / "fit.state.json"
    fitted(config, 3, state=path)
    fitted(config, 5, state=path, history=read_history(path, config))
    resumed = fitted(config, 8, state=path, history=read_history(path, config))

    straight = fitted(config, 8)

    assert resumed.found == straight.found
    assert resumed.score == straight.score
    assert len(read_history(path, config).generations) == 8


def test_sequences_of_a_fit_have_one_use_each(config: RuleFitConfig) -> None:
    """Evaluation, validation, every generation and the last comparison draw other sequences."""
    ranges = [config.validation_numbers(), *map(config.generation_numbers, (1, 2, 3))]
    numbers = [number for part in (*ranges, config.held_back_numbers()) for number in part]
    assert len(numbers) == len(set(numbers)) == 4 + 3 * 2 + 4
    assert min(numbers) == FIRST_TRAINING_SEQUENCE


def test_every_setting_counts_the_same(config: RuleFitConfig) -> None:
    """The score of two settings is the geometric mean of their scores."""
    (batch,) = config.settings
    stream = replace(batch, arrivals="poisson", protocol="session", interarrival_s=1.0)
    results = [
        fitted(replace(config, settings=settings), 1)
        for settings in ((batch,), (stream,), (batch, stream))
    ]
    starts = [result.start_score for result in results]
    assert starts[2] == pytest.approx(math.sqrt(starts[0] * starts[1]))
    assert starts[0] != starts[1]


def test_a_search_finds_a_hidden_point_and_leaves_other_weights_alone() -> None:
    """Of 295 weights it may change those of one feature, 14 units, and the bias of the gate. In a
    bowl the mean moves to its bottom.
    """
    assert free_weights(("unit_12",)).sum() == 21
    begin = start("tuned_srw", "es_rule")
    free = free_weights(("blocking", "gate_bias"))
    assert free.sum() == 15
    goal = begin + np.where(free, np.linspace(-0.5, 0.5, len(begin)), 0.0)
    search = Search(begin, 0.3, 24, 0, free)
    for _ in range(120):
        points = search.ask()
        assert all((point[~free] == begin[~free]).all() for point in points)
        search.tell([1.0 + float(np.square(point - goal).sum()) for point in points])
    assert search.mean == pytest.approx(goal, abs=0.1)


# --- the command ---------------------------------------------------------------------------------


def test_the_command_writes_what_evaluation_reads(run: Command, tmp_path: Path) -> None:
    """Weights, how they were found, and a state beside them."""
    out = tmp_path / "rule.json"
    arguments = ("--generations", 2, "--pairs", 2, "--validation", 2, "-o", out)

    result = succeeded(run(*arguments, command="fit-rule"))

    assert "es_rule: average JCT" in result.stdout
    assert "On 2 held-out sequences: " in result.stdout
    content = json.loads(out.read_text())
    assert content["training"]["generations"] == 2
    assert [setting["interarrival_s"] for setting in content["config"]["settings"]] == [3.0]
    policy, parameters = read_tuned(out)
    assert policy == "es_rule"
    assert len(parameters) == 295
    assert run("--policies", "strict_fair,es_rule", "--tuned", out).exit_code == 0
    state = tmp_path / "rule.state.json"
    refused(run(*arguments, command="fit-rule"), "holds a fit; continue with --resume")
    assert run(*arguments, "--resume", state, command="fit-rule").exit_code == 0


def test_minutes_end_a_fit_that_can_go_on(
    run: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Generations of 40 s: two to a minute, those of a fit that goes on counted anew. What is
    stopped so is what as many generations give.
    """
    clock = itertools.count(0.0, 40.0)
    monkeypatch.setattr(
        "decima.training.rule_fit.fit.time", SimpleNamespace(monotonic=clock.__next__)
    )
    options = ("--pairs", 2, "--validation", 2)
    out, state = tmp_path / "rule.json", tmp_path / "rule.state.json"
    # The generations end it should the minutes not.
    minute = (*options, "--minutes", 1, "--generations", 9, "-o", out)
    for done, more in ((2, ()), (4, ("--resume", state))):
        result = succeeded(run(*minute, *more, command="fit-rule"))
        assert f"of {done}; state in" in result.stdout
        assert json.loads(state.read_text())["elapsed_s"] == 40.0 * done
        assert read_tuned(out)[0] == "es_rule"

    straight = tmp_path / "straight.json"
    run(*options, "--generations", 4, "-o", straight, command="fit-rule")
    stopped, never = (
        json.loads(path.with_suffix(".state.json").read_text()) for path in (out, straight)
    )
    assert stopped == never
    assert len(never["generations"]) == 4
    assert out.read_text() == straight.read_text()


def test_contradictions_are_one_line(run: Command, tmp_path: Path) -> None:
    out = tmp_path / "rule.json"
    for arguments, part in (
        (("--batch", "--interarrival", 5), "several --interarrival contradict"),
        (("--interarrival", 3), "interarrival 3.0 s is given twice"),
        (("--pairs", 1), "pairs is 1: at least 2"),
        (("--sigma", 0), "sigma is 0.0: it must be above 0"),
        (("--start", "zero"), "is not one of 'tuned_srw', 'shipped'"),
        (("--time-limit", 0.001, "--generations", 1), "no job of sequence"),
    ):
        refused(run("-o", out, *arguments, command="fit-rule"), part)
    assert list(tmp_path.iterdir()) == []


def test_a_file_of_settings_takes_the_place_of_options(run: Command, tmp_path: Path) -> None:
    """A batch and a session, fitted to together; the result names both."""
    file, out = tmp_path / "both.toml", tmp_path / "rule.json"
    file.write_text(
        """
        trace = "random-dag"
        executors = 8
        jobs = 4
        [[setting]]
        arrivals = "batch"
        [[setting]]
        protocol = "session"
        load = 0.8
        """
    )
    options = ("--settings", file, "--generations", 1, "--pairs", 2, "--validation", 1)
    succeeded(run(*options, "--start", "shipped", "-o", out, command="fit-rule"))
    content = json.loads(out.read_text())["config"]
    assert [setting["protocol"] for setting in content["settings"]] == ["executors", "session"]
    assert content["start"] == "shipped"


@pytest.mark.parametrize(
    ("damage", "part"),
    [
        (lambda _: "{", "not JSON"),
        (lambda _: "[1]", "not the state of a `decima fit-rule`"),
        (lambda state: json.dumps({**state, "version": 1}), "version 1, this reader knows 2"),
        (lambda state: json.dumps({**state, "generations": [[[1.0], 1.0, None]]}), "damaged"),
        (lambda state: json.dumps({**state, "start_score": "1"}), "'1' is not a finite number"),
        (lambda state: json.dumps({**state, "config": {}}), "was begun with"),
        (lambda state: json.dumps({**state, "generations": other_scores(state)}), "repeated"),
    ],
)
def test_damaged_states_are_one_line(
    config: RuleFitConfig, tmp_path: Path, damage: Callable[[Json], str], part: str
) -> None:
    """Whatever is wrong with the file, the message names it or the generation."""
    path = tmp_path / "fit.state.json"
    fitted(config, 2, state=path)
    path.write_text(damage(json.loads(path.read_text())))
    with raises_one_line(ConfigError, match=part):
        fitted(config, 3, history=read_history(path, config))


def other_scores(state: Json) -> list[Any]:
    """The scores of the first generation in another order: they lead elsewhere."""
    (scores, distance, validation), *rest = state["generations"]
    return [[scores[::-1], distance, validation], *rest]
