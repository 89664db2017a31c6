"""`decima explain`: what it says of a decision is what the policy does, and its parts add up."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result

from decima.agent import columns
from decima.agent import model as model_files
from decima.agent.acting import act
from decima.agent.network import NetworkConfig, PolicyNetwork
from decima.agent.policy import LearnedPolicy
from decima.cli import console
from decima.cli.main import main
from decima.evaluation.config import ConfigError, EvaluationConfig
from decima.evaluation.runner import Workload
from decima.explain.attribution import Columns, integrated_gradients
from decima.explain.decision import Explanation, explain_decision
from decima.explain.moments import Moment, at_number, at_time, busiest, moments
from spark_sim import PASS
from tests.commands import refused
from traces import Trace, write_trace
from traces.synthetic import chain, fork_join

SMALL = NetworkConfig(embedding=6, hidden=(7,), head_hidden=(9, 5))
BUSY = 12
"""a decision of the small workload with several jobs in the system"""


def perturbed(config: NetworkConfig = SMALL, seed: int = 0) -> PolicyNetwork:
    """Weights as no training leaves them: every choice has another probability."""
    network = PolicyNetwork(config)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weights in network.parameters():
            weights.normal_(0.0, 0.5, generator=generator)
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


def test_probabilities_are_those_by_which_the_policy_acts(
    config: EvaluationConfig, workload: Workload, tmp_path: Path
) -> None:
    """Stage times limit is the probability that acting reports; all choices add up to one."""
    network = perturbed()
    several = 0
    for moment in itertools.islice(
        moments(workload, config, saved(network, tmp_path), 0), 5, 50, 4
    ):
        found = explain_decision(network, workload, moment)
        taken = act(network, LearnedPolicy(network, workload.arrays).look(moment.observation), None)
        chances = [stage.probability for stage in found.stages]
        assert chances == sorted(chances, reverse=True)
        assert sum(chances) + found.pass_probability == pytest.approx(1, abs=1e-6)
        if found.taken is None:
            assert found.pass_probability == pytest.approx(np.exp(taken.log_prob[0]), rel=1e-4)
            continue
        of_limit = {shown.limit: shown.probability for shown in found.limits}
        assert sum(of_limit.values()) == pytest.approx(1, abs=1e-6)
        assert found.taken_limit is not None
        joint = found.taken.probability * of_limit[found.taken_limit]
        assert joint == pytest.approx(np.exp(taken.log_prob[0]), rel=1e-4)
        several += len(found.stages) > 1 and len(found.limits) > 1
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
    assert jct_s.tolist() == pytest.approx(played.metrics.jct_s.tolist())


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
    network = perturbed(replace(SMALL, always_one=False))
    with torch.no_grad():
        network.pass_head.last.bias.add_(20)
    first = next(moments(workload, config, saved(network, tmp_path), 0))
    assert first.action == PASS
    found = explain_decision(network, workload, first)
    assert (found.taken, found.taken_limit, found.limits) == (None, None, ())
    assert found.pass_probability > 0.99
    assert found.log_prob == pytest.approx(np.log(found.pass_probability), abs=1e-6)
    assert {part.own for part in found.attributions if part.level != "cluster"} == {0.0}


def test_a_decision_without_a_choice_has_nothing_to_explain(
    config: EvaluationConfig, tmp_path: Path
) -> None:
    """Under decima-sim's rules executors may be on offer with no stage left to want them."""
    network = perturbed()
    config = replace(config, protocol="decima-sim")
    workload = Workload.of(config)
    run = moments(workload, config, saved(network, tmp_path), 0)
    empty = next(moment for moment in run if moment.num_open == 0)
    found = explain_decision(network, workload, empty)
    assert (found.stages, found.attributions, found.pass_probability) == ((), (), 1.0)


# --- the parts of the columns --------------------------------------------------------------------


def test_a_product_is_shared_equally() -> None:
    """By hand: x y from (0, 0) to (2, 3) is 6, half of it for each; x alone owns 5 x."""
    at = Columns(*(torch.tensor([[value]]) for value in (2.0, 3.0, 7.0, 1.0)))
    zero = Columns(*(torch.zeros((1, 1)) for _ in at))

    def function(point: Columns) -> torch.Tensor:
        return (point.stage * point.job + 5 * point.node).sum()

    parts = integrated_gradients(function, at, zero, steps=4)
    assert [float(part) for part in parts] == pytest.approx([3.0, 3.0, 0.0, 5.0])


@pytest.mark.parametrize(
    "network_config",
    [
        SMALL,
        replace(SMALL, embeddings=False),
        replace(SMALL, messages=False),
        replace(SMALL, two_level=False),
    ],
    ids=["full", "no embeddings", "no messages", "one level"],
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
    """Scores each stage by the executors of its job / N, and by nothing else."""
    network = PolicyNetwork(replace(SMALL, may_idle=False))
    with torch.no_grad():
        for weights in network.parameters():
            weights.zero_()
        head = network.stage_head
        column = SMALL.embedding + columns.JOB.index("held")
        head.parts[1].get_parameter("weight")[0, column] = 1.0
        head.body[1].get_parameter("weight")[0, 0] = 1.0
        head.last.weight[0, 0] = 8.0
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
    """The mean of a moment is that of the columns at all decisions up to it."""
    network = perturbed()
    policy = LearnedPolicy(network, workload.arrays)
    shown: list[np.ndarray[tuple[int], np.dtype[np.float32]]] = []
    moment: Moment | None = None
    for moment in itertools.islice(moments(workload, config, saved(network, tmp_path), 0), BUSY):
        shown.append(policy.look(moment.observation).features.cluster_x[0].copy())
    assert moment is not None
    assert moment.cluster_mean == pytest.approx(np.mean(shown, axis=0), abs=1e-6)


# --- the command ---------------------------------------------------------------------------------


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """Arguments of a small workload."""
    monkeypatch.setattr(console, "is_compiled", lambda: True)
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
    assert f"decision {BUSY} at {content['time_s']:.1f} s" in result.stdout
    assert "leave the rest idle" in result.stdout
    assert "limits of this stage" in result.stdout
    assert f"{100 * content['stages'][0]['probability']:.1f} %" in result.stdout
    assert content["taken"]["name"] in result.stdout
    assert len(content["attributions"]) == sum(
        map(len, (columns.STAGE, columns.JOB, columns.CLUSTER, columns.NODE))
    )
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
        (("--model", "fifo"), "none of decima, decima-batch, decima-session, nor a file ending"),
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
