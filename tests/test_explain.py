"""`decima explain`: probabilities are the policy's, and reasons are inputs that change them."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from decima.agent import columns, plan_probabilities
from decima.agent import model as model_files
from decima.agent.graph import GraphSorter
from decima.agent.network import PolicyNetwork
from decima.agent.policy import LearnedPolicy
from decima.agent.scales import Scales
from decima.agent.weights import NetworkConfig
from decima.errors import ConfigError
from decima.evaluation.config import EvaluationConfig
from decima.evaluation.runner import Workload
from decima.report.explain import reasons
from decima.report.explain.decision import (
    Explanation,
    JobShown,
    LimitShown,
    Moment,
    StageShown,
    at_number,
    at_time,
    busiest,
    explain_decision,
    moments,
)
from decima.report.explain.reasons import LEAST_WEIGHT, MESSAGES, REASONS, TABLES, Reason
from decima.report.explain.words import in_words
from gnn.heads import Head
from gnn.levels import Levels
from spark_sim import PASS
from tests.commands import decima, refused, succeeded
from tests.networks import random_network, whole_graph
from tests.shapes import chain, fork_join
from traces import Trace, write_trace

SMALL = NetworkConfig(embedding=6, hidden=(7,), head_hidden=(9, 5))
BUSY = 12
"""a decision of the small workload with several jobs in the system"""


def decided() -> PolicyNetwork:
    """Return a random network whose choices differ and which makes long plans."""
    network = random_network(seed=3, config=SMALL)
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for weights in network.parameters():
            weights.normal_(0.0, 0.5, generator=generator)
        network.end_head.last.bias.sub_(6.0)
    return network


def zeroed() -> PolicyNetwork:
    """Return a network whose weights are all zero."""
    network = PolicyNetwork(SMALL)
    with torch.no_grad():
        for weights in network.parameters():
            weights.zero_()
    return network


def reading(head: str, part: int, column: int, scale: float = 8.0) -> PolicyNetwork:
    """Return a network in which one head reads one column: its score is `scale` times it."""
    network = zeroed()
    with torch.no_grad():
        chosen: Head = getattr(network, head)
        chosen.parts[part].get_parameter("weight")[0, column] = 1.0
        chosen.body[0].get_parameter("weight")[0, 0] = 1.0
        chosen.last.weight[0, 0] = scale
    return network


def saved(network: PolicyNetwork, folder: Path) -> str:
    path = folder / "model.safetensors"
    model_files.save_model(path, network.config, network.state_dict(), {})
    return str(path)


@pytest.fixture
def config(trace_file: Path) -> EvaluationConfig:
    """Twelve small jobs that wait for four executors."""
    return EvaluationConfig(
        trace=str(trace_file), policies=("decima",), jobs=12, interarrival_s=1, executors=4
    )


@pytest.fixture
def workload(config: EvaluationConfig) -> Workload:
    return Workload.of(config)


@pytest.fixture
def classes(config: EvaluationConfig) -> EvaluationConfig:
    """The same jobs with memory needs, on executors of four classes."""
    kinds = "1x4,2x4,3x4,4x4"
    return replace(config, executors=16, interarrival_s=1, classes=kinds, demands="drawn")


def played(config: EvaluationConfig, folder: Path) -> Iterator[Moment]:
    """Yield the plans of `decided` with several stages to choose from."""
    run = moments(Workload.of(config), config, saved(decided(), folder), 0)
    return (
        decision
        for decision in run
        if decision.number == decision.planned_at and decision.num_open > 1
    )


# --- probabilities -------------------------------------------------------------------------------


@pytest.mark.parametrize("has_classes", [False, True])
def test_probabilities_are_those_by_which_the_policy_acts(
    *, has_classes: bool, config: EvaluationConfig, classes: EvaluationConfig, tmp_path: Path
) -> None:
    """Stage times limit (times class) is the plan's first choice in training; all sum to one."""
    network = decided()
    config = classes if has_classes else replace(config, executors=16, interarrival_s=0.2)
    workload = Workload.of(config)
    policy = LearnedPolicy(network, workload.arrays)
    units, sorter = Scales.of(workload.arrays), GraphSorter(workload.arrays)
    several = 0
    for moment in itertools.islice(played(config, tmp_path), 12):
        explanation = explain_decision(network, workload, moment, with_reasons=False)
        chances = [stage.probability for stage in explanation.stages]
        assert chances == sorted(chances, reverse=True)
        assert sum(chances) + explanation.end_probability == pytest.approx(1, abs=1e-6)
        policy.plan(moment.observation)
        assert policy.planned is not None
        first = policy.planned.plan._replace(used=np.ones(1, np.int64))
        graph, _ = whole_graph(moment.observation.as_batch(), sorter, units)
        with torch.no_grad():
            expected = float(plan_probabilities.taken(network(graph), graph, first).log_prob[0])
        if explanation.taken is None:
            assert np.log(explanation.end_probability) == pytest.approx(expected, rel=1e-4)
            continue
        of_limit = {shown.limit: shown.probability for shown in explanation.limits}
        assert sum(of_limit.values()) == pytest.approx(1, abs=1e-6)
        assert explanation.taken_limit is not None
        joint = explanation.taken.probability * of_limit[explanation.taken_limit]
        assert bool(explanation.classes) == has_classes
        if explanation.taken_memory_gb is not None:
            of_class = {shown.memory_gb: shown.probability for shown in explanation.classes}
            assert sum(of_class.values()) == pytest.approx(1, abs=1e-6)
            joint *= of_class[explanation.taken_memory_gb]
        assert np.log(joint) == pytest.approx(expected, rel=1e-4, abs=1e-5)
        several += len(explanation.limits) > 1
        several += len(explanation.classes) > 1
    assert several >= 2


@pytest.mark.parametrize("protocol", ["executors", "session"])
def test_a_later_choice_is_explained_by_its_plan(
    protocol: str, config: EvaluationConfig, tmp_path: Path
) -> None:
    """Choices of one plan share its order and state; each has a later place than the last."""
    network = decided()
    config = replace(config, protocol=protocol, executors=8)
    workload = Workload.of(config)
    run = list(moments(workload, config, saved(network, tmp_path), 0))
    later = [
        decision
        for decision in run
        if decision.number > decision.planned_at and decision.action != PASS
    ]
    assert len(later) >= 5
    for moment in later[:5]:
        first, before = run[moment.planned_at - 1], run[moment.number - 2]
        assert first.planned_at == before.planned_at == moment.planned_at == first.number
        explanations = [
            explain_decision(network, workload, decision) for decision in (first, before, moment)
        ]
        assert [decision.stages for decision in explanations] == [explanations[0].stages] * 3
        places = [
            decision.end_place if decision.taken is None else decision.taken.place
            for decision in explanations
        ]
        assert places[0] == 1
        assert places[1] < places[2] < explanations[0].end_place
        assert {stage.place for stage in explanations[0].stages} | {
            explanations[0].end_place
        } == set(range(1, len(explanations[0].stages) + 2))
        words = in_words(explanations[2])
        number = moment.number - moment.planned_at + 1
        assert f"choice {number} of the plan made at decision {first.number}" in words[0]
        assert not any("drawn" in sentence for sentence in words)


@pytest.mark.parametrize("suffix", ["", ":sampled"])
def test_the_run_is_the_one_that_an_evaluation_plays(
    suffix: str, config: EvaluationConfig, workload: Workload, tmp_path: Path
) -> None:
    """Explaining changes no action, whether the policy takes the likeliest or draws."""
    from decima.evaluation.runner import simulate
    from decima.learned import learned_policy
    from spark_sim import Streams

    name = saved(decided(), tmp_path) + suffix
    config = replace(config, policies=(name,))
    key = int(Streams(config.seed, 1).actions().integers(2**63))
    alone = simulate(workload, config, learned_policy(name, workload.arrays, key), 1)
    watched = list(moments(workload, config, name, 1))
    assert len(watched) == alone.metrics.decisions
    jobs = watched[-1].observation.jobs
    jct_s = (jobs["completion_ms"] - jobs["arrival_ms"]) / 1000
    complete = np.isfinite(jct_s)  # at the last decision
    assert complete.sum() > 6
    assert jct_s[complete].tolist() == pytest.approx(alone.metrics.jct_s[complete].tolist())


def test_names_and_figures_are_those_of_the_job(
    config: EvaluationConfig, workload: Workload, tmp_path: Path
) -> None:
    """A stage shown is a stage of the trace's job, with its durations; ages count from arrival."""
    network = decided()
    moment = at_number(moments(workload, config, saved(network, tmp_path), 0), BUSY)
    explanation = explain_decision(network, workload, moment)
    assert len(explanation.stages) == moment.num_open > 1
    for shown in explanation.stages:
        job = workload.trace.job(shown.job.name)
        stage = next(candidate for candidate in job.stages if candidate.name == shown.name)
        assert shown.task_s == pytest.approx(stage.mean_ms / 1000)
        row = moment.observation.jobs[shown.job.arrival]
        assert shown.job.age_s == pytest.approx(explanation.time_s - row["arrival_ms"] / 1000)
        assert 1 <= shown.wanted <= stage.num_tasks
        work_s = sum(candidate.num_tasks * candidate.mean_ms for candidate in job.stages) / 1000
        left = 1 - shown.job.started_share
        assert shown.job.work_left_s == pytest.approx(left * work_s, abs=1e-6)
        assert 0 <= shown.job.local <= explanation.on_offer


def test_a_decision_without_a_choice_has_nothing_to_explain(
    config: EvaluationConfig, workload: Workload, tmp_path: Path
) -> None:
    """Under decima-sim's rules executors may be on offer with no stage left to want them."""
    network = decided()
    moment = at_number(moments(workload, config, saved(network, tmp_path), 0), BUSY)
    jobs, stages = moment.observation.jobs.copy(), moment.observation.stages.copy()
    jobs["open_stages"] = stages["open"] = 0
    seen = moment.observation._replace(jobs=jobs, stages=stages)
    empty = replace(moment, observation=seen, action=PASS, given=0, order=np.zeros(1, np.int64))
    explanation = explain_decision(network, workload, empty, with_columns=True)
    assert (explanation.stages, explanation.reasons, explanation.columns) == ((), (), ())
    assert (explanation.end_probability, explanation.taken, explanation.end_place) == (1.0, None, 1)


# --- reasons -------------------------------------------------------------------------------------


def test_a_network_that_reads_one_column_gives_exactly_that_reason(
    config: EvaluationConfig, workload: Workload, tmp_path: Path
) -> None:
    """By hand: the score is 8 times the share of executors held; the mean makes all equal."""
    network = reading("stage_head", 1, SMALL.embedding + columns.JOB.index("held"))
    with torch.no_grad():
        network.end_head.last.bias.fill_(-1e4)
    for moment in moments(workload, config, saved(network, tmp_path), 0):
        held = moment.observation.jobs["held"][moment.observation.active]
        if len(set(held.tolist())) > 1 and moment.num_open > 2 and moment.action != PASS:
            break
    explanation = explain_decision(network, workload, moment, with_columns=True)
    scores = np.array([8 * stage.job.held / 4 for stage in explanation.stages])
    probability = np.exp(scores) / np.exp(scores).sum()
    assert [stage.probability for stage in explanation.stages] == pytest.approx(
        probability, rel=1e-5
    )
    assert explanation.taken is not None
    (reason,), (column,) = explanation.reasons, explanation.columns
    assert (reason.name, column.name) == ("executors held", "job.held")
    expected = np.log(explanation.taken.probability * len(scores))
    assert reason.weight == reason.stage == pytest.approx(expected, rel=1e-4)
    assert column.weight == pytest.approx(reason.weight)
    (words,) = (
        sentence for sentence in in_words(explanation) if re.match("For it|Against it", sentence)
    )
    assert re.fullmatch(r"For it: its job holds \w+.* executors.* \(.*\)\.", words) is not None


def test_every_column_has_one_reason() -> None:
    reasons = [
        (table, name)
        for group in REASONS.values()
        for table, names in group.items()
        for name in names
    ]
    assert sorted(reasons) == sorted((table, name) for table in TABLES for name in TABLES[table])


def test_the_cluster_is_compared_with_the_run_so_far(
    config: EvaluationConfig, workload: Workload, tmp_path: Path
) -> None:
    """Its mean is that of the columns at all plans up to the moment's own."""
    network = decided()
    policy = LearnedPolicy(network, workload.arrays)
    shown = []
    moment: Moment | None = None
    for moment in itertools.islice(moments(workload, config, saved(network, tmp_path), 0), BUSY):
        if moment.number == moment.planned_at:
            shown.append(policy.score(moment.observation).choices.cluster_x[0].copy())
    assert moment is not None
    assert moment.cluster_mean == pytest.approx(np.mean(shown, axis=0), abs=1e-6)


# --- which decision ------------------------------------------------------------------------------


def test_a_decision_is_found_by_number_by_time_and_by_size(
    config: EvaluationConfig, workload: Workload, tmp_path: Path
) -> None:
    """Numbers count from 1; a time takes the next decision; the busiest is the first of them."""
    name = saved(decided(), tmp_path)

    def run() -> Iterator[Moment]:
        return moments(workload, config, name, 0)

    watched = [
        (decision.number, decision.observation.time_ms / 1000, decision.num_open)
        for decision in run()
    ]
    assert [number for number, _, _ in watched] == list(range(1, len(watched) + 1))
    at_s = watched[BUSY][1]
    first = next(number for number, time_s, _ in watched if time_s >= at_s)
    assert at_time(run(), at_s).number == first
    assert busiest(run()) == max(watched, key=lambda row: row[2])[0]
    with pytest.raises(ConfigError, match=f"over after {len(watched)} decisions"):
        at_number(run(), len(watched) + 1)
    with pytest.raises(ConfigError, match="no decision at 1e"):
        at_time(run(), 1e9)
    with pytest.raises(ConfigError, match="before the first arrival"):
        busiest(iter(()))


# --- in words ------------------------------------------------------------------------------------


def hand_made(
    weights: dict[str, float] | None = None,
    *,
    local: int = 2,
    moving_delay_s: float = 2.0,
    chances: tuple[float, float] = (0.9, 0.1),
) -> Explanation:
    """Two stages to choose from, of which the first was taken: it gets two executors of two.

    Its job has 20 executor-seconds of work left and holds one executor, the other's 180 and 9; its
    tasks take 1 s, the other's 3. Each reason has its weight in the stage.
    """
    small = JobShown("small", 4, 5.0, 20.0, 0.2, 1, local)
    large = JobShown("large", 2, 60.0, 180.0, 0.8, 9, 0)
    first = StageShown(small, "scan", chances[0], 1, 8, 1.0, 4.0, True, None)
    second = StageShown(large, "sort", chances[1], 2, 30, 3.0, 12.0, False, None)
    return Explanation(
        decision=1,
        planned_at=1,
        time_s=60.0,
        jobs_in_system=2,
        executors=12,
        on_offer=2,
        moving_delay_s=moving_delay_s,
        stages=tuple(sorted((first, second), key=lambda shown: -shown.probability)),
        end_probability=0.0,
        end_place=3,
        taken=first,
        taken_limit=3,
        given=2,
        limits=(LimitShown(2, 0.25), LimitShown(3, 0.75)),
        taken_memory_gb=None,
        classes=(),
        reasons=tuple(Reason(name, part, 0.0, 0.0) for name, part in (weights or {}).items()),
        columns=(),
    )


def test_a_decision_reads_as_choice_probability_and_reasons() -> None:
    explanation = hand_made({"moving cost": 2.0, "work left": 1.3, "age": -0.6})
    assert in_words(explanation) == (
        "scan of small (arrival 4) gets 2 more executors: its job holds 1 and may now hold 3.",
        "Its probability is 90.0 %; next is sort of large with 10.0 %.",
        "Among 2 limits for its job, 3 has 75.0 %; lower ones have 25.0 % together.",
        "For it: its executors are already there; its job is short (20 executor-seconds left, on "
        "average 100).",
        "Against it: its job arrived recently (5 s since it arrived, on average 32).",
    )
    drawn = in_words(hand_made(chances=(0.3, 0.7)))[1]
    assert drawn.startswith("Its probability is 30.0 %; next is sort of large with 70.0 %.")
    assert "drawn, not the likeliest" in drawn


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("executors held", "its job holds few executors (1 held, on average 5)"),
        ("tasks waiting", "few of its tasks are waiting (8 waiting, on average 19)"),
        ("task length", "its tasks are short (1.0 s each, on average 2.0)"),
        ("critical path", "its critical path is short (4.0 s to the end of its job"),
        ("readiness", "it can start now"),
        ("progress", "its job has just begun (20 % of its work started, on average 50)"),
        ("memory", "the memory that a task needs"),
        ("limit", "the size of the limit (3)"),
        (MESSAGES, "the stages that come after it in its job"),
        ("cluster", "2 jobs in the system, 2 of 12 executors on offer"),
    ],
)
def test_each_reason_has_its_words(reason: str, words: str) -> None:
    assert words in in_words(hand_made({reason: 1.0}))[-1]


@pytest.mark.parametrize(
    ("local", "delay_s", "words"),
    [
        (1, 2.0, "1 of its 2 executors are already there, the rest have to move (2 s each)"),
        (0, 2.0, "its executors have to move (2 s each)"),
        (1, 0.0, "1 of the 2 executors on offer are its own already"),
    ],
)
def test_moving_executors_are_counted(local: int, delay_s: float, words: str) -> None:
    assert (
        words in in_words(hand_made({"moving cost": 1.0}, local=local, moving_delay_s=delay_s))[-1]
    )


def test_a_pass_and_a_decision_without_stages_in_words() -> None:
    explanation = hand_made({"work left": 1.0})
    nothing: dict[str, Any] = {"taken": None, "taken_limit": None, "given": 0, "limits": ()}
    idle = replace(explanation, **nothing, end_probability=0.95, end_place=0)
    none = replace(idle, stages=(), reasons=(), end_probability=1.0)
    assert in_words(none) == ("No stage may be chosen: 2 executors on offer stay idle.",)
    assert in_words(idle) == (
        "Nothing is chosen: 2 executors on offer stay idle.",
        "Its probability is 95.0 %; next is scan of small with 90.0 %.",
        "For it: the stages' work left (100 executor-seconds left on average).",
    )


# --- the command ---------------------------------------------------------------------------------


TINY = ("--jobs", 12, "--interarrival", 1, "--executors", 4)


def test_the_command_prints_and_writes_the_same(tmp_path: Path) -> None:
    """Stages, limits and reasons on the screen, probabilities first; all of it in the file.

    A job called like a style is shown by its name.
    """
    trace_file, output = tmp_path / "odd.parquet", tmp_path / "decision.json"
    odd = replace(fork_join("fork", (2, 5)), name="[bold]shop[/nothing]")
    write_trace(Trace("odd", (odd, chain("chain", (4, 1, 3)))), trace_file)
    model = saved(decided(), tmp_path)
    asked = ("explain", "--trace", trace_file, *TINY, "--model", model)
    chosen = (*asked, "--decision", BUSY, "--json", output)
    result = succeeded(decima(*chosen))
    assert "[bold]shop[/nothing]" in result.stdout
    content = json.loads(output.read_text())
    assert (content["decision"], content["sequence"], content["model"]) == (BUSY, 0, model)
    heading = rf"decision {BUSY}(, planned at \d+)? at {content['time_s']:.1f} s"
    assert re.search(heading, result.stdout) is not None
    assert "limits of this stage" in result.stdout
    assert f"{100 * content['stages'][0]['probability']:.1f} %" in result.stdout
    assert content["taken"]["name"] in result.stdout
    unwrapped = " ".join(result.stdout.split())
    assert all(sentence in unwrapped for sentence in content["words"])
    assert unwrapped.index("leave the rest idle:") < unwrapped.index("Weights need not add up")
    assert content["reasons"]
    for reason in content["reasons"]:
        assert abs(reason["weight"]) >= LEAST_WEIGHT
        parts = reason["stage"] + reason["limit"] + reason["executor_class"]
        assert reason["weight"] == pytest.approx(parts)
        assert f"{reason['weight']:+.2f}" in result.stdout
    assert content["columns"] == []
    every = decima(*chosen, "--columns")
    single = json.loads(output.read_text())["columns"]
    assert single
    assert all(entry["name"] in every.stdout for entry in single)


def test_the_command_gives_no_reason_for_weights_of_zero(trace_file: Path, tmp_path: Path) -> None:
    output = tmp_path / "decision.json"
    asked = ("--model", saved(zeroed(), tmp_path), "--columns", "--json", output)
    result = succeeded(decima("explain", "--trace", trace_file, *TINY, *asked))
    content = json.loads(output.read_text())
    assert (content["reasons"], content["columns"]) == ([], [])
    assert f"{len(content['stages'])} stages to choose from" in result.stdout
    assert len(content["stages"]) > 3  # the busiest decision is the default
    assert "No reason changes the log-probability" in result.stdout
    assert "0.00" not in result.stdout.replace("0.00 s", "")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--decision", "1000000"), "there is no decision 1000000: the run is over after"),
        (("--time", "1e6"), "no decision at 1e+06 s or later"),
        (("--decision", "3", "--time", "4"), "give one of them"),
        (("--decision", "0"), "--decision"),
        (("--sequence", "-1"), "--sequence"),
        (("--sequences", "3"), "No such option"),
        (("--model", "fifo"), "not decima, nor a file ending"),
        (("--model", "absent.safetensors"), "absent.safetensors"),
        (("--json", "nowhere/file.json"), "there is no folder nowhere"),
    ],
    ids=str,
)
def test_mistakes_are_one_line(
    arguments: tuple[str, ...], words: str, trace_file: Path, tmp_path: Path
) -> None:
    asked = ("--trace", trace_file, *TINY, "--model", saved(decided(), tmp_path))
    refused(decima("explain", *asked, *arguments), words)


def test_weights_are_those_of_the_network_with_the_inputs_ablated(
    config: EvaluationConfig,
    workload: Workload,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Computed by torch from the whole graph: one column of all jobs, and no edges."""
    network = decided()
    sorter, units = GraphSorter(workload.arrays), Scales.of(workload.arrays)
    monkeypatch.setattr(reasons, "LEAST_WEIGHT", 0.0)
    largest = {"job.remaining": 0.0, MESSAGES: 0.0}
    for moment in itertools.islice(played(config, tmp_path), 8):
        graph, choices = whole_graph(moment.observation.as_batch(), sorter, units)
        work = graph.job_x.clone()
        column = columns.JOB.index("remaining")
        work[:, column] = work[graph.job_of_stage, column].mean()
        none = torch.empty(0, dtype=torch.int64)
        levels = Levels((0, len(graph.nodes.x)), none, none, (0, 0))
        ablated = {
            "job.remaining": graph._replace(job_x=work),
            MESSAGES: graph._replace(nodes=graph.nodes._replace(levels=levels)),
        }
        entry = len(choices.open_stage)
        if moment.action != PASS:
            entry = int(np.flatnonzero(choices.open_stage == moment.action.stage)[0])
        explanation = explain_decision(network, workload, moment, with_columns=True)
        shown = {reason.name: reason for reason in explanation.reasons + explanation.columns}
        for name, changed in ablated.items():
            with torch.no_grad():
                before, after = (
                    torch.cat((scores.stage, scores.end)).log_softmax(0)[entry]
                    for scores in (network(graph), network(changed))
                )
            assert shown[name].stage == pytest.approx(float(before - after), abs=1e-5)
            largest[name] = max(largest[name], abs(float(before - after)))
    assert min(largest.values()) > 1e-3, largest
