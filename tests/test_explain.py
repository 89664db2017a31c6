"""`decima explain`: probabilities are the policy's, and reasons are inputs that change them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from decima.agent import columns, plan_probabilities
from decima.agent import model as model_files
from decima.agent.graph import GraphSorter, whole_graph
from decima.agent.network import PolicyNetwork
from decima.agent.policy import LearnedPolicy
from decima.agent.scales import Scales
from decima.agent.weights import NetworkConfig
from decima.errors import ConfigError
from decima.evaluation.config import EvaluationConfig
from decima.evaluation.runner import Workload
from decima.report.explain.decision import explain_decision
from decima.report.explain.moments import Moment, at_number, at_time, busiest, moments
from decima.report.explain.reasons import REASONS, TABLES
from decima.report.explain.words import in_words
from gnn.heads import Head
from spark_sim import PASS
from tests.networks import random_network

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
    return (one for one in run if one.number == one.planned_at and one.num_open > 1)


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
        found = explain_decision(network, workload, moment, with_reasons=False)
        chances = [stage.probability for stage in found.stages]
        assert chances == sorted(chances, reverse=True)
        assert sum(chances) + found.end_probability == pytest.approx(1, abs=1e-6)
        policy.plan(moment.observation)
        assert policy.planned is not None
        first = policy.planned.plan._replace(used=np.ones(1, np.int64))
        graph, _ = whole_graph(moment.observation.as_batch(), sorter, units)
        with torch.no_grad():
            expected = float(plan_probabilities.taken(network(graph), graph, first).log_prob[0])
        if found.taken is None:
            assert np.log(found.end_probability) == pytest.approx(expected, rel=1e-4)
            continue
        of_limit = {shown.limit: shown.probability for shown in found.limits}
        assert sum(of_limit.values()) == pytest.approx(1, abs=1e-6)
        assert found.taken_limit is not None
        joint = found.taken.probability * of_limit[found.taken_limit]
        assert bool(found.classes) == has_classes
        if found.taken_memory_gb is not None:
            of_class = {shown.memory_gb: shown.probability for shown in found.classes}
            assert sum(of_class.values()) == pytest.approx(1, abs=1e-6)
            joint *= of_class[found.taken_memory_gb]
        assert np.log(joint) == pytest.approx(expected, rel=1e-4, abs=1e-5)
        several += len(found.limits) > 1
        several += len(found.classes) > 1
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
    later = [one for one in run if one.number > one.planned_at and one.action != PASS]
    assert len(later) >= 5
    for moment in later[:5]:
        first, before = run[moment.planned_at - 1], run[moment.number - 2]
        assert first.planned_at == before.planned_at == moment.planned_at == first.number
        found = [explain_decision(network, workload, one) for one in (first, before, moment)]
        assert [one.stages for one in found] == [found[0].stages] * 3
        places = [one.end_place if one.taken is None else one.taken.place for one in found]
        assert places[0] == 1
        assert places[1] < places[2] < found[0].end_place
        assert {stage.place for stage in found[0].stages} | {found[0].end_place} == set(
            range(1, len(found[0].stages) + 2)
        )
        words = in_words(found[2])
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
    found = explain_decision(network, workload, moment)
    assert len(found.stages) == moment.num_open > 1
    for shown in found.stages:
        job = workload.trace.job(shown.job.name)
        stage = next(one for one in job.stages if one.name == shown.name)
        assert shown.task_s == pytest.approx(stage.mean_ms / 1000)
        row = moment.observation.jobs[shown.job.arrival]
        assert shown.job.age_s == pytest.approx(found.time_s - row["arrival_ms"] / 1000)
        assert 1 <= shown.wanted <= stage.num_tasks
        work_s = sum(one.num_tasks * one.mean_ms for one in job.stages) / 1000
        left = 1 - shown.job.started_share
        assert shown.job.work_left_s == pytest.approx(left * work_s, abs=1e-6)
        assert 0 <= shown.job.local <= found.on_offer


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
    found = explain_decision(network, workload, empty, with_columns=True)
    assert (found.stages, found.reasons, found.columns) == ((), (), ())
    assert (found.end_probability, found.taken, found.end_place) == (1.0, None, 1)


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
    found = explain_decision(network, workload, moment, with_columns=True)
    scores = np.array([8 * stage.job.held / 4 for stage in found.stages])
    probability = np.exp(scores) / np.exp(scores).sum()
    assert [stage.probability for stage in found.stages] == pytest.approx(probability, rel=1e-5)
    assert found.taken is not None
    (reason,), (column,) = found.reasons, found.columns
    assert (reason.name, column.name) == ("executors held", "job.held")
    expected = np.log(found.taken.probability * len(scores))
    assert reason.weight == reason.stage == pytest.approx(expected, rel=1e-4)
    assert column.weight == pytest.approx(reason.weight)
    (words,) = (one for one in in_words(found) if re.match("For it|Against it", one))
    assert re.fullmatch(r"For it: its job holds \w+.* executors.* \(.*\)\.", words) is not None


def test_every_column_has_one_reason() -> None:
    found = [
        (table, name)
        for group in REASONS.values()
        for table, names in group.items()
        for name in names
    ]
    assert sorted(found) == sorted((table, name) for table in TABLES for name in TABLES[table])


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

    watched = [(one.number, one.observation.time_ms / 1000, one.num_open) for one in run()]
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
