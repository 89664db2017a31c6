"""`decima explain`: what it says of a decision is what the policy does, and its parts add up."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result

from decima.agent import columns, plans
from decima.agent import model as model_files
from decima.agent.network import NetworkConfig, PolicyNetwork
from decima.agent.policy import LearnedPolicy
from decima.cli.main import main
from decima.evaluation.config import ConfigError, EvaluationConfig
from decima.evaluation.runner import Workload
from decima.explain.attribution import LEVELS, NAMES, Attribution, Columns, integrated_gradients
from decima.explain.decision import (
    Explanation,
    JobShown,
    LimitShown,
    StageShown,
    explain_decision,
)
from decima.explain.legend import CLASS_COLUMNS, COLUMNS, LIMIT_COLUMNS, REASONS
from decima.explain.moments import Moment, at_number, at_time, busiest, moments
from decima.explain.words import amount, in_words, reasons
from spark_sim import PASS
from tests.commands import refused
from traces import Trace, write_trace
from traces.synthetic import chain, fork_join

SMALL = NetworkConfig(embedding=6, hidden=(7,), head_hidden=(9, 5))
BUSY = 12
"""a decision of the small workload with several jobs in the system"""


def perturbed(config: NetworkConfig = SMALL, seed: int = 3) -> PolicyNetwork:
    """Weights as no training leaves them: every choice has another probability, plans are long."""
    network = PolicyNetwork(config)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weights in network.parameters():
            weights.normal_(0.0, 0.5, generator=generator)
        network.end_head.last.bias.sub_(6.0)
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


def play(network: PolicyNetwork, config: EvaluationConfig, folder: Path) -> list[Explanation]:
    """Explanations of a few of the first decisions."""
    workload = Workload.of(config)
    run = moments(workload, config, saved(network, folder), 0)
    return [
        explain_decision(network, workload, moment) for moment in itertools.islice(run, 2, 40, 12)
    ]


# --- the choices ---------------------------------------------------------------------------------


@pytest.mark.parametrize("classes", [None, "1x8,2x8"])
def test_probabilities_are_those_by_which_the_policy_acts(
    classes: str | None, config: EvaluationConfig, tmp_path: Path
) -> None:
    """Stage times limit (times class) is what a training knows of the plan's first choice; all add
    up to one.
    """
    network = perturbed()
    config = replace(config, executors=16, interarrival_s=0.2)
    if classes is not None:
        config = replace(config, classes=classes, demands="drawn")
    workload = Workload.of(config)
    policy = LearnedPolicy(network, workload.arrays)
    several = 0
    run = moments(workload, config, saved(network, tmp_path), 0)
    first_of_several = (one for one in run if one.number == one.planned_at and one.num_open > 1)
    for moment in itertools.islice(first_of_several, 12):
        found = explain_decision(network, workload, moment)
        chances = [stage.probability for stage in found.stages]
        assert chances == sorted(chances, reverse=True)
        assert sum(chances) + found.end_probability == pytest.approx(1, abs=1e-6)
        seen = policy.plan(moment.observation)
        assert policy.planned is not None
        first = policy.planned.plan._replace(used=np.ones(1, np.int64))
        expected = float(plans.taken(seen.scores, seen.graph, first).log_prob[0])
        if found.taken is None:
            assert np.log(found.end_probability) == pytest.approx(expected, rel=1e-4)
            continue
        of_limit = {shown.limit: shown.probability for shown in found.limits}
        assert sum(of_limit.values()) == pytest.approx(1, abs=1e-6)
        assert found.taken_limit is not None
        joint = found.taken.probability * of_limit[found.taken_limit]
        assert bool(found.classes) == (classes is not None)
        if found.taken_memory_gb is not None:
            of_class = {shown.memory_gb: shown.probability for shown in found.classes}
            assert sum(of_class.values()) == pytest.approx(1, abs=1e-6)
            joint *= of_class[found.taken_memory_gb]
        assert np.log(joint) == pytest.approx(expected, rel=1e-4, abs=1e-5)
        several += len(found.limits) > 1
    assert several >= 2


@pytest.mark.parametrize("protocol", ["executors", "session"])
def test_a_later_choice_is_explained_by_its_plan(
    protocol: str, config: EvaluationConfig, tmp_path: Path
) -> None:
    """Choices of one plan share its order and state; each is behind those before it."""
    network = perturbed()
    config = replace(config, protocol=protocol, executors=8)
    workload = Workload.of(config)
    run = list(moments(workload, config, saved(network, tmp_path), 0))
    later = [one for one in run if one.number > one.planned_at and one.action != PASS]
    assert len(later) >= 5
    for moment in later[:5]:
        first, before = run[moment.planned_at - 1], run[moment.number - 2]
        assert first.planned_at == before.planned_at == moment.planned_at == first.number
        told = [explain_decision(network, workload, one) for one in (first, before, moment)]
        assert [one.stages for one in told] == [told[0].stages] * 3
        places = [one.end_place if one.taken is None else one.taken.place for one in told]
        assert places[0] == 1
        assert places[1] < places[2] < told[0].end_place
        assert {stage.place for stage in told[0].stages} | {told[0].end_place} == set(
            range(1, len(told[0].stages) + 2)
        )
        words = in_words(told[2])
        number = moment.number - moment.planned_at + 1
        assert f"choice {number} of the plan made at decision {first.number}" in words[0]
        assert not any("drawn" in sentence for sentence in words)


def test_executors_given_are_those_that_the_simulator_gives(
    config: EvaluationConfig, workload: Workload, tmp_path: Path
) -> None:
    """What a choice gives is what is on offer less afterwards."""
    run = list(moments(workload, config, saved(perturbed(), tmp_path), 0))
    by_plan = itertools.groupby(run, key=lambda one: one.planned_at)
    several = 0
    for _, own in by_plan:
        choices = list(own)
        given = [one.given for one in choices]
        assert all((one.given == 0) == (one.action == PASS) for one in choices)
        assert sum(given) <= choices[0].observation.on_offer
        several += sum(given) == choices[0].observation.on_offer > 1
    assert several > 3


@pytest.mark.parametrize("suffix", ["", ":sampled"])
def test_the_run_is_the_one_that_an_evaluation_plays(
    suffix: str, config: EvaluationConfig, workload: Workload, tmp_path: Path
) -> None:
    """Looking on changes no action, whether the policy takes the likeliest or draws."""
    from decima.evaluation.runner import simulate
    from decima.learned import learned_policy
    from spark_sim import Streams

    name = saved(perturbed(), tmp_path) + suffix
    config = replace(config, policies=(name,))
    key = int(Streams(config.seed, 1).actions().integers(2**63))
    policy = learned_policy(name, workload.arrays, key)
    played = simulate(workload, config, policy, 1)
    watched = list(moments(workload, config, name, 1))
    assert len(watched) == played.metrics.decisions
    jobs = watched[-1].observation.jobs
    jct_s = (jobs["completion_ms"] - jobs["arrival_ms"]) / 1000
    complete = np.isfinite(jct_s)  # at the last decision
    assert complete.sum() > 6
    assert jct_s[complete].tolist() == pytest.approx(played.metrics.jct_s[complete].tolist())


def test_names_and_figures_are_those_of_the_job(
    config: EvaluationConfig, workload: Workload, tmp_path: Path
) -> None:
    """A stage shown is a stage of the trace's job, with its durations; ages count from arrival."""
    network = perturbed()
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


def test_passing_is_explained_too(
    config: EvaluationConfig, workload: Workload, tmp_path: Path
) -> None:
    """No stage is taken, no limit is shown, and the parts are those of passing."""
    network = perturbed()
    with torch.no_grad():
        network.end_head.last.bias.add_(40)
    first = next(moments(workload, config, saved(network, tmp_path), 0))
    assert first.action == PASS
    found = explain_decision(network, workload, first)
    assert (found.taken, found.taken_limit, found.limits) == (None, None, ())
    assert found.end_probability > 0.99
    assert found.log_prob == pytest.approx(np.log(found.end_probability), abs=1e-6)
    assert {part.own for part in found.attributions if part.level != "cluster"} == {0.0}


def test_a_decision_without_a_choice_has_nothing_to_explain(
    config: EvaluationConfig, workload: Workload, tmp_path: Path
) -> None:
    """Under decima-sim's rules executors may be on offer with no stage left to want them."""
    network = perturbed()
    run = moments(workload, config, saved(network, tmp_path), 0)
    moment = at_number(run, BUSY)
    jobs, stages = moment.observation.jobs.copy(), moment.observation.stages.copy()
    jobs["open_stages"] = stages["open"] = 0
    seen = moment.observation._replace(jobs=jobs, stages=stages)
    empty = replace(moment, observation=seen, action=PASS, given=0, order=np.zeros(1, np.int64))
    found = explain_decision(network, workload, empty)
    assert (found.stages, found.attributions, found.end_probability) == ((), (), 1.0)
    assert (found.taken, found.end_place) == (None, 1)


# --- the parts of the columns --------------------------------------------------------------------


def test_a_product_is_shared_equally() -> None:
    """By hand: x y from (0, 0) to (2, 3) is 6, half of it for each; x alone owns 5 x."""
    at = Columns(*(torch.tensor([[value]]) for value in (2.0, 3.0, 7.0, 1.0, 4.0)))
    zero = Columns(*(torch.zeros((1, 1)) for _ in at))

    def function(point: Columns) -> torch.Tensor:
        return (point.stage * point.job + 5 * point.node - point.rule).sum()

    parts = integrated_gradients(function, at, zero, steps=4)
    assert [float(part) for part in parts] == pytest.approx([3.0, 3.0, 0.0, 5.0, -4.0])


@pytest.mark.parametrize(
    "network_config",
    [
        SMALL,
        replace(SMALL, embeddings=False),
        replace(SMALL, messages=False),
        replace(SMALL, two_level=False),
        replace(SMALL, rule=False),
    ],
    ids=["full", "no embeddings", "no messages", "one level", "no rule"],
)
def test_parts_add_up_to_what_they_explain(
    network_config: NetworkConfig, config: EvaluationConfig, tmp_path: Path
) -> None:
    """The parts of all columns are the log-probability less that at average columns."""
    network = perturbed(network_config)
    largest = 0.0
    for found in play(network, config, tmp_path):
        difference = found.log_prob - found.baseline
        total = sum(part.total for part in found.attributions)
        assert total == pytest.approx(difference, rel=0.02, abs=0.01)
        largest = max(largest, abs(difference))
    assert largest > 0.1


def only_held() -> PolicyNetwork:
    """Scores each stage by the executors of its job / N, and by nothing else; never idles."""
    network = PolicyNetwork(replace(SMALL, rule=False))
    with torch.no_grad():
        for weights in network.parameters():
            weights.zero_()
        head = network.stage_head
        column = SMALL.embedding + columns.JOB.index("held")
        head.parts[1].get_parameter("weight")[0, column] = 1.0
        head.body[0].get_parameter("weight")[0, 0] = 1.0
        head.last.weight[0, 0] = 8.0
        network.end_head.last.bias.fill_(-1e4)
    return network


def test_a_column_that_the_network_ignores_has_no_part(
    config: EvaluationConfig, workload: Workload, tmp_path: Path
) -> None:
    """A network that reads one column: its part is all, from one choice in n to the softmax."""
    network = only_held()
    run = moments(workload, config, saved(network, tmp_path), 0)
    for moment in run:
        held = [int(job["held"]) for job in moment.observation.jobs[moment.observation.active]]
        if len(set(held)) > 1 and moment.num_open > 2:
            break
    found = explain_decision(network, workload, moment)
    scores = np.array([8 * stage.job.held / 4 for stage in found.stages])
    probability = np.exp(scores) / np.exp(scores).sum()
    assert [stage.probability for stage in found.stages] == pytest.approx(probability, rel=1e-5)
    assert found.baseline == pytest.approx(-np.log(len(scores)), rel=1e-5)
    (part,) = (part for part in found.attributions if part.total != 0)
    assert (part.level, part.column) == ("job", "held")
    assert part.total == pytest.approx(np.log(probability[0] * len(scores)), rel=1e-3)
    assert part.value == pytest.approx(found.stages[0].job.held / 4)
    assert part.baseline == pytest.approx(scores.mean() / 8)
    assert part.own > 0


# --- in words ------------------------------------------------------------------------------------


def hand_made(
    *,
    local: int = 2,
    moving_delay_s: float = 2.0,
    chances: tuple[float, float] = (0.9, 0.1),
    **parts: float,
) -> Explanation:
    """Two stages to choose from, of which the first was taken: it gets two executors of two.

    Its job has 20 executor-seconds of work left and holds one executor, the other's 180 and 9; its
    tasks take 1 s, the other's 3. `parts` name columns as in ``job_local=2.0``.
    """
    small = JobShown("small", 4, 5.0, 20.0, 1, local, 0.2)
    large = JobShown("large", 2, 60.0, 180.0, 9, 0, 0.8)
    first = StageShown(small, "scan", chances[0], 1, 8, 1.0, 4.0, True)
    second = StageShown(large, "sort", chances[1], 2, 30, 3.0, 12.0, True)
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
        limits=(LimitShown(3, 1.0, (0.0,) * len(columns.LIMIT)),),
        taken_memory_gb=None,
        classes=(),
        log_prob=-0.1,
        baseline=-0.7,
        attributions=tuple(
            Attribution(level, column, None, 0.0, part, 0.0)
            for name, part in parts.items()
            for level, _, column in [name.partition("_")]
        ),
    )


def test_a_decision_is_told_by_what_spoke_for_it() -> None:
    """The heaviest reason first, with the figures of the stage and the mean of both."""
    choice, why, likely = in_words(hand_made(job_local=2.0, job_relative=0.7, node_work=0.6))
    assert choice == (
        "scan of small (arrival 4) gets 2 more executors: its job holds 1 and may now hold 3."
    )
    assert why == (
        "Why: its executors are already there, nothing has to move; its job is short "
        "(20 executor-seconds left, on average 100)."
    )
    assert likely == "It had 90.0 %; next is sort of large with 10.0 %."


def test_the_words_follow_the_attribution() -> None:
    """The same facts with other weights: another order, what spoke against it, nothing light."""
    _, why, _ = in_words(
        hand_made(job_local=-0.5, stage_duration=0.5, job_shorter=1.5, job_age=0.05)
    )
    assert why == (
        "Why: its job is short (20 executor-seconds left, on average 100); its tasks are short "
        "(1.0 s each, on average 2.0). "
        "Against it: its executors are already there, nothing has to move."
    )


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ("job_held", "its job holds few executors (1 held, on average 5)"),
        ("stage_path", "little comes after it (4.0 s to the end of its job, on average 8.0)"),
        ("stage_demand", "few of its tasks wait (8 waiting, on average 19)"),
        ("stage_runnable", "it can start now"),
        ("job_undone", "its job has only begun (20 % of its stages open, on average 50)"),
        ("job_age", "its job came lately (5 s since it arrived, on average 32)"),
        (
            "cluster_load",
            "the state of the cluster (2 jobs in the system, 2 of 12 executors on offer)",
        ),
    ],
)
def test_each_reason_has_its_words(column: str, words: str) -> None:
    parts: dict[str, Any] = {column: 1.0}
    assert in_words(hand_made(**parts))[1] == f"Why: {words}."


@pytest.mark.parametrize(
    ("order", "planned", "words"),
    [
        (0.0, 1.0, "the fitted rule would choose it as number 1"),
        (-2.0, 1.0, "the fitted rule would choose it as number 3"),
        (-3.0, 0.0, "the fitted rule would not choose it"),
    ],
)
def test_the_place_in_the_rules_order_is_told(order: float, planned: float, words: str) -> None:
    """Of a stage; of the end of the round, after how many choices it would come."""
    told = (
        Attribution("rule", "order", order, -1.0, 1.0, 0.0),
        Attribution("stage", "planned", planned, 0.5, 0.5, 0.0),
        Attribution("cluster", "planned", 0.3, 0.3, 0.0, 0.0),
    )
    found = replace(hand_made(), attributions=told)
    assert in_words(found)[1] == f"Why: {words}."
    ended = replace(found, taken=None, taken_limit=None, given=0, end_place=1)
    count = "1 choice" if order == -1 else f"{-order:.0f} choices"
    assert in_words(ended)[1] == f"Why: the fitted rule would end the round after {count}."


def test_less_alike_and_more_are_told_apart() -> None:
    """Work of 20, 100 and 500 executor-seconds beside one of 100."""
    told = []
    for work_s in (20.0, 100.0, 500.0):
        found = hand_made(job_relative=1.0)
        assert found.taken is not None
        other = replace(found.stages[1], job=replace(found.stages[1].job, work_left_s=100.0))
        taken = replace(found.taken, job=replace(found.taken.job, work_left_s=work_s))
        told.append(in_words(replace(found, taken=taken, stages=(taken, other)))[1])
    assert [words.partition(" (")[0] for words in told] == [
        "Why: its job is short",
        "Why: its job is about as long as the others",
        "Why: its job is long",
    ]


@pytest.mark.parametrize(
    ("local", "delay_s", "words"),
    [
        (2, 2.0, "its executors are already there, nothing has to move"),
        (1, 2.0, "1 of its 2 executors are already there, the rest have to move (2 s each)"),
        (0, 2.0, "its executors have to move (2 s each)"),
        (1, 0.0, "1 of the 2 executors on offer are its own already"),
    ],
)
def test_what_moves_is_counted(local: int, delay_s: float, words: str) -> None:
    """In a shared session nothing does."""
    found = hand_made(local=local, moving_delay_s=delay_s, job_local=1.0)
    assert in_words(found)[1] == f"Why: {words}."


def test_means_of_small_counts_keep_a_decimal() -> None:
    """Of two stages one has an executor there; whole numbers stay whole."""
    (place,) = (one for one in reasons(hand_made(local=1, job_local=1.0)) if one.name == "place")
    assert amount(place, place.value) == "1 of those on offer"
    assert amount(place, place.average) == "0.5 of those on offer"


def test_a_drawn_choice_is_called_so() -> None:
    """The likelier one is named."""
    found = in_words(hand_made(chances=(0.3, 0.7), job_local=-1.0))
    assert found[1] == "Against it: its executors are already there, nothing has to move."
    assert found[2] == (
        "It had 30.0 %; next is sort of large with 70.0 %. It was drawn, not the likeliest."
    )


def test_without_a_choice_there_is_no_why() -> None:
    """One stage, no stage, and a pass while there are two."""
    found = hand_made(cluster_jobs=1.0)
    assert found.taken is not None
    alone = replace(found, stages=(found.taken,))
    assert in_words(alone)[2] == ("It had 90.0 %; next is leaving the rest idle with 0.0 %.")
    idle = replace(
        found, taken=None, taken_limit=None, given=0, limits=(), end_probability=0.95, end_place=0
    )
    none = replace(idle, stages=(), attributions=(), end_probability=1.0)
    assert in_words(none) == ("No stage may be chosen: 2 executors on offer stay idle.",)
    assert in_words(idle) == (
        "Nothing is chosen: 2 executors on offer stay idle.",
        "Why: the state of the cluster (2 jobs in the system, 2 of 12 executors on offer).",
        "It had 95.0 %; next is scan of small with 90.0 %.",
    )


def test_every_column_has_a_meaning_and_a_reason() -> None:
    """The legend names the columns that the network is told, no more and no less."""
    told = {(level, name) for level, names in zip(LEVELS, NAMES, strict=True) for name in names}
    assert set(COLUMNS) == told
    assert tuple(LIMIT_COLUMNS) == columns.LIMIT
    assert tuple(CLASS_COLUMNS) == columns.CLASS
    assert {meaning.reason for meaning in COLUMNS.values()} == set(REASONS)


def test_reasons_add_up_as_their_columns_do(config: EvaluationConfig, tmp_path: Path) -> None:
    """Real decisions: nothing is lost or counted twice, and every one can be told."""
    for found in play(perturbed(), config, tmp_path):
        total = sum(part.total for part in found.attributions)
        assert sum(reason.part for reason in reasons(found)) == pytest.approx(total)
        assert len(in_words(found)) >= 2
        for shown in found.stages:
            assert 0 < shown.job.open_share <= 1
            assert 0 <= shown.job.local <= found.on_offer


# --- which decision ------------------------------------------------------------------------------


def test_a_decision_is_found_by_number_by_time_and_by_size(
    config: EvaluationConfig, workload: Workload, tmp_path: Path
) -> None:
    """Numbers count from 1; a time takes the next decision; the busiest is the first of them."""
    name = saved(perturbed(), tmp_path)

    def run() -> list[tuple[int, float, int]]:
        found = moments(workload, config, name, 0)
        return [(one.number, one.observation.time_ms / 1000, one.num_open) for one in found]

    watched = run()
    assert [number for number, _, _ in watched] == list(range(1, len(watched) + 1))
    at_s = watched[BUSY][1]
    first = next(number for number, time_s, _ in watched if time_s >= at_s)
    assert at_time(moments(workload, config, name, 0), at_s).number == first
    widest = max(watched, key=lambda row: row[2])
    assert busiest(moments(workload, config, name, 0)) == widest[0]
    with pytest.raises(ConfigError, match=f"over after {len(watched)} decisions"):
        at_number(moments(workload, config, name, 0), len(watched) + 1)
    with pytest.raises(ConfigError, match="no decision at 1e"):
        at_time(moments(workload, config, name, 0), 1e9)
    with pytest.raises(ConfigError, match="before the first arrival"):
        busiest(iter(()))


def test_the_cluster_is_compared_with_the_run_so_far(
    config: EvaluationConfig, workload: Workload, tmp_path: Path
) -> None:
    """The mean of a moment is that of the columns at all plans up to its own."""
    network = perturbed()
    policy = LearnedPolicy(network, workload.arrays)
    shown: list[np.ndarray[tuple[int], np.dtype[np.float32]]] = []
    moment: Moment | None = None
    for moment in itertools.islice(moments(workload, config, saved(network, tmp_path), 0), BUSY):
        if moment.number == moment.planned_at:
            shown.append(policy.look(moment.observation).graph.cluster_x[0].numpy().copy())
    assert moment is not None
    assert moment.cluster_mean == pytest.approx(np.mean(shown, axis=0), abs=1e-6)


# --- the command ---------------------------------------------------------------------------------


@pytest.fixture
def tiny() -> tuple[str, ...]:
    """Arguments of a small workload."""
    return ("--jobs", "12", "--interarrival", "1", "--executors", "4")


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["explain", *(str(argument) for argument in arguments)])


def test_the_command_prints_and_writes_the_same(
    trace_file: Path, tiny: tuple[str, ...], tmp_path: Path
) -> None:
    """State, stages, limits, action and parts on the screen; all of it in the file."""
    output = tmp_path / "decision.json"
    model = saved(perturbed(), tmp_path)
    chosen = ("--decision", BUSY, "--json", output)
    result = invoke("--trace", trace_file, *tiny, "--model", model, *chosen)
    assert result.exit_code == 0, result.output
    content = json.loads(output.read_text())
    assert (content["decision"], content["sequence"], content["model"]) == (BUSY, 0, model)
    heading = rf"decision {BUSY}(, planned at \d+)? at {content['time_s']:.1f} s"
    assert re.search(heading, result.stdout) is not None
    assert "leave the rest idle" in result.stdout
    assert "limits of this stage" in result.stdout
    assert f"{100 * content['stages'][0]['probability']:.1f} %" in result.stdout
    assert content["taken"]["name"] in result.stdout
    unwrapped = " ".join(result.stdout.split())
    assert all(sentence in unwrapped for sentence in content["words"])
    assert "waiting: tasks without an executor" in unwrapped
    assert "off: those / what the rule would give" not in unwrapped
    assert "what it is" not in result.stdout
    every = invoke("--trace", trace_file, *tiny, "--model", model, *chosen, "--columns")
    assert "what it is" in every.stdout
    assert "off: those / what the rule would give" in " ".join(every.stdout.split())
    assert len(content["attributions"]) == sum(map(len, NAMES))
    total = sum(part["own"] + part["others"] for part in content["attributions"])
    assert f"together {total:+.2f}" in result.stdout


def test_the_busiest_decision_is_the_default(
    trace_file: Path, tiny: tuple[str, ...], tmp_path: Path
) -> None:
    """Without a number the table shows a decision with many stages."""
    model = saved(perturbed(), tmp_path)
    output = tmp_path / "decision.json"
    result = invoke("--trace", trace_file, *tiny, "--model", model, "--json", output)
    assert result.exit_code == 0, result.output
    content = json.loads(output.read_text())
    assert len(content["stages"]) > 3
    assert f"{len(content['stages'])} stages to choose from" in result.stdout


def test_names_in_a_trace_are_no_markup(tiny: tuple[str, ...], tmp_path: Path) -> None:
    """A job called like a style is shown by its name."""
    path = tmp_path / "odd.parquet"
    odd = replace(fork_join("fork", (2, 5)), name="[bold]shop[/nothing]")
    write_trace(Trace("odd", (odd, chain("chain", (4, 1, 3)))), path)
    result = invoke("--trace", path, *tiny, "--model", saved(perturbed(), tmp_path), "--time", 1)
    assert result.exit_code == 0, result.output
    assert "[bold]shop[/nothing]" in result.stdout


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
    arguments: tuple[str, ...],
    words: str,
    trace_file: Path,
    tiny: tuple[str, ...],
    tmp_path: Path,
) -> None:
    """Each names what is wrong and leaves no file."""
    model = saved(perturbed(), tmp_path)
    refused(invoke("--trace", trace_file, *tiny, "--model", model, *arguments), words)
