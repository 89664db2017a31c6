"""The settings of a training: files, contradictions, and which sequences they give."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner

from decima.cli.main import main
from decima.errors import ConfigError
from decima.rl.run_folder import RunFolder, read_run
from decima.training.config import (
    ImitateConfig,
    ReinforceConfig,
    config_from,
    read_config,
)
from decima.training.episodes import EpisodeSource
from decima.training.session import run_training
from deeprm.cli import main as deeprm
from harmony.cli import main as harmony
from tests.commands import raises_one_line, refused
from tests.test_training import command, sets, small
from traces import load_trace

# --- files ---------------------------------------------------------------------------------------


def test_a_file_of_settings(tmp_path: Path) -> None:
    """TOML sections, with `--set` on top; what is no TOML is refused."""
    path = tmp_path / "my.toml"
    path.write_text(
        "seed = 5\n[imitate]\nteachers = ['fifo']\n[reinforce]\nrollouts = 4\n"
        "[credit]\nhorizon = 3\ntrace = 'none'\n"
    )
    config = read_config(path, ("reinforce.rollouts=6", "seed=5"))
    assert (config.seed, config.reinforce.rollouts, config.imitate.teachers) == (5, 6, ("fifo",))
    assert (config.credit.horizon, config.credit.trace) == (3.0, None)
    assert config_from(json.loads(json.dumps(config.to_json()))) == config
    path.write_text("seed = = 5")
    with pytest.raises(ConfigError, match="not TOML"):
        read_config(path)


SETTINGS = """
[[workload.settings]]
trace = "tpch"
executors = 10
load = 0.8
[[workload.settings]]
trace = "random-dag"
executors = 16
protocol = "session"
arrivals = "batch"
jobs = 5
"""


def test_settings_may_be_clusters_and_traces_of_their_own(tmp_path: Path) -> None:
    """Each as in a file of settings; they come back from the stored form of the configuration."""
    path = tmp_path / "my.toml"
    path.write_text(SETTINGS)
    config = read_config(path)
    assert config_from(json.loads(json.dumps(config.to_json()))) == config
    labels = [setting.label for setting in EpisodeSource(config).settings]
    assert [label.split(".")[:3] for label in labels] == [
        ["0", "tpch", "10_executors"],
        ["1", "random-dag", "16_slots"],
    ]
    assert labels[1].endswith("batch_5")
    path.write_text(SETTINGS.replace("load", "lode"))
    with pytest.raises(ConfigError, match="lode"):
        read_config(path)
    own = tmp_path / "arrivals.csv"
    own.write_text("arrival_ms,job\n")
    for fixed in ("recorded", "decima-sim", str(own)):
        path.write_text(SETTINGS.replace("batch", fixed))
        with pytest.raises(ConfigError, match=re.escape(f"arrivals '{fixed}' cannot be drawn")):
            read_config(path)
    path.write_text(SETTINGS + "seed = 3\n")
    with pytest.raises(ConfigError, match="seed belongs to the command"):
        read_config(path)


def test_every_iteration_takes_the_next_settings_in_turn(tmp_path: Path) -> None:
    """Three settings, two at a time, two sequences each, in two shards that are neighbours."""
    path = tmp_path / "my.toml"
    path.write_text(SETTINGS + '[[workload.settings]]\ntrace = "random-dag"\nexecutors = 3\n')
    changes = (
        "episodes.settings=2",
        "imitate.sequences=2",
        "reinforce.sequences=2",
        "episodes.backlog=0",
    )
    source = EpisodeSource(read_config(path, changes))
    turns = [
        [planned.setting.number for planned in source.of_iteration(number)] for number in range(3)
    ]
    assert turns == [[0, 0, 1, 1], [2, 2, 0, 0], [1, 1, 2, 2]]
    whole = [episode.number for episode in source.of_iteration(1)]
    groups = source.groups_of_iteration(1)
    assert sorted(groups) == [(0, 0), (1, 0)]
    shares = [
        [planned.number for planned in source.of_iteration(1, groups[key])]
        for key in sorted(groups)
    ]
    assert shares == [whole[:2], whole[2:]]


# --- sequences -----------------------------------------------------------------------------------


def test_episodes_may_begin_with_a_backlog_and_end_drained(trace_file: Path) -> None:
    """Between 0 and the backlog at time 0; without a time limit every job is completed."""
    changes = ("workload.batch_jobs=[]", "imitate.iterations=1", "reinforce.iterations=60",
               "reinforce.sequences=8", "episodes.backlog=5")  # fmt: skip
    for ends in ("cut", "drained"):
        source = EpisodeSource(small(trace_file, *changes, f"episodes.ends={ends}"))
        runs = [episode.run for number in range(1, 7) for episode in source.of_iteration(number)]
        backlogs = [int((run.arrival_ms == 0).sum()) for run in runs]
        assert set(backlogs) == set(range(6))
        assert all((run.time_limit_ms is None) == (ends == "drained") for run in runs)
        assert all((np.diff(run.arrival_ms) >= 0).all() for run in runs)


def test_episodes_lengthen_and_none_is_far_too_long(trace_file: Path) -> None:
    """From four arrivals on average to 40, from the first iteration of `reinforce` on; none beyond
    twice the mean of its iteration. `imitate` stays at the begin.
    """
    changes = (
        "workload.batch_jobs=[]",
        "imitate.iterations=10",
        "imitate.sequences=200",
        "reinforce.iterations=60",
        "reinforce.sequences=200",
        "episodes.start_jobs=4",
        "episodes.end_jobs=40",
        "episodes.growth_iterations=10",
        "episodes.longest=2",
        "episodes.backlog=0",
        "episodes.ends=cut",
    )
    source = EpisodeSource(small(trace_file, *changes))
    means = ((0, 4.0), (9, 4.0), (10, 4.0), (15, np.sqrt(160)), (20, 40.0), (60, 40.0))
    for iteration, mean in means:
        ends = [episode.run.time_limit_ms for episode in source.of_iteration(iteration)]
        gaps = np.array([end for end in ends if end is not None]) / 3_000
        # Cut off at twice its mean, an exponential has a mean of 1 - e^-2.
        assert gaps.mean() == pytest.approx(mean * (1 - np.exp(-2)), rel=0.2)
        if mean > 10:  # short ones last until a job is there
            assert gaps.max() <= 2 * mean + 1e-9


def test_the_steps_follow_one_another() -> None:
    """`imitate` first; each counts its own iterations; one without iterations is left out."""
    counts = {"imitate": 3, "reinforce": 5, "evolve": 2}
    config = config_from({name: {"iterations": count} for name, count in counts.items()})
    steps = [config.step_at(number) for number in range(10)]
    expected = [config.imitate] * 3 + [config.reinforce] * 5 + [config.evolve] * 2
    assert [step for step, _ in steps] == expected
    assert [number for _, number in steps] == [0, 1, 2, 0, 1, 2, 3, 4, 0, 1]
    assert config.iterations == 10
    none = {"iterations": 0}
    alone = config_from({"imitate": none, "reinforce": {"iterations": 2}, "evolve": none})
    assert alone.step_at(0) == (alone.reinforce, 0)
    assert alone.iterations == 2


def test_rates_and_entropy_weights_fall_in_straight_lines() -> None:
    """From the first iteration of the step to its end, whatever came before; then constant."""
    step = ReinforceConfig(
        iterations=100,
        learning_rate=1e-3,
        final_learning_rate=2e-4,
        entropy_start=0.04,
        entropy_end=0.01,
    )
    rates = [step.rate_at(number) for number in (0, 25, 50, 100, 900)]
    assert rates == pytest.approx([1e-3, 8e-4, 6e-4, 2e-4, 2e-4])
    weights = [step.entropy_at(number) for number in (0, 50, 100, 900)]
    assert weights == pytest.approx([0.04, 0.025, 0.01, 0.01])
    imitate = ImitateConfig(iterations=10, learning_rate=4e-3, final_learning_rate=2e-3)
    assert imitate.rate_at(5) == pytest.approx(3e-3)


def test_training_validation_and_evaluation_never_meet_the_same_sequence(trace_file: Path) -> None:
    """Their numbers lie apart, and so do the arrivals drawn from them."""
    changes = ("workload.batch_jobs=[]", "imitate.sequences=8", "reinforce.sequences=8",
               "validation.sequences=4", "evolve.pairs=8")  # fmt: skip
    source = EpisodeSource(small(trace_file, *changes))
    played = [episode for index in range(4) for episode in source.of_iteration(index)]
    played += [planned for pair in range(8) for planned in source.for_evolving(2, pair)]
    kept = source.for_validation() + source.for_choosing_teachers(source.settings[0], 6)
    numbers = [planned.number for planned in (*played, *kept)]
    assert len(set(numbers)) == len(numbers)
    assert min(numbers) >= 2_000_000
    last = [tuple(planned.run.arrival_ms[-3:]) for planned in (*played, *kept)]
    assert len(set(last)) == len(last)


# --- contradictions ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ("workload.excutors=4", ("unknown setting workload.excutors", "executors")),
        ("imitate.teachers=[]", ("imitate.teachers: at least one",)),
        ("imitate.teachers=['random']", ("'random' is neither a heuristic",)),
        ("imitate.teachers=['decima:sampled']", ("'decima:sampled' draws its plans",)),
        ("imitate.student=1.5", ("imitate.student is 1.5", "at most 1")),
        ("seed=-1", ("seed is -1", "negative")),
        ("credit.horizon=0", ("credit.horizon is 0.0", "above 0")),
        ("credit.baseline=guess", ("'guess'", "'input', 'mean' or 'none'")),
        ("objective=p99", ("'p99'", "reinforce.iterations = 0")),
        ("objective=avg_jtc", ("'avg_jtc'", "did you mean avg_jct")),
        ("objective=deadlines:0.5", ("'0.5'", "from 1")),
        ("evolve.pairs=1", ("evolve.pairs is 1:", "at least 2")),
        ("evolve.sequences=2000", ("evolve.sequences is 2000", "at most 1,000")),
        ("evolve.parts=['class_head']", ("class_head decides nothing",)),
        ("evolve.parts=['head']", ("head", "encoder")),
        ("credit=3", ("credit is 3", "section")),
        ("workload.trace=nothing", ("nothing",)),
        ("workload.interarrival_s=3", ("a list is needed",)),
        ("workload.settings=[{colour=3}]", ("colour",)),
        ("network.embedding=0", ("embedding 0 must be at least 1",)),
        ("reinforce.iterations=-1", ("reinforce.iterations is -1", "negative")),
        ("reinforce.rollouts=1", ("rollouts must be at least 2",)),
        ("seed", ("expected KEY=VALUE or SECTION.KEY=VALUE",)),
        ("episodes.end_jobs=3", ("from 4.0 to 3.0 jobs",)),
        ("imitate.final_learning_rate=1.0", ("learning rate goes from 0.003 to 1.0",)),
        ("reinforce.entropy_end=1.0", ("entropy_end <= entropy_start",)),
        ("validation.patience=0", ("validation.patience is 0", "at least 1")),
        ("initial_model=/none/no", ("/none/no",)),
    ],
)
def test_contradictions_are_one_line(
    change: str, parts: tuple[str, ...], trace_file: Path, tmp_path: Path
) -> None:
    """And no run folder is begun, so the corrected command may use it."""
    out = tmp_path / "run"
    refused(command("--out", out, *sets(trace_file, change)), *parts)
    assert not out.exists()


@pytest.mark.parametrize("asked", [("--device", "cuda"), ("--set", "device=cuda")])
@pytest.mark.parametrize("program", [main, deeprm, harmony])
def test_a_device_is_refused_with_the_reason(
    program: click.Command, asked: tuple[str, str], tmp_path: Path
) -> None:
    result = CliRunner().invoke(program, ["train", "--out", str(tmp_path / "run"), *asked])
    assert result.exit_code == 2
    assert "device: training and evaluation run on CPUs" in result.stderr
    assert not (tmp_path / "run").exists()


def test_an_iteration_of_fewer_sequences_than_shards_trains(
    trace_file: Path, tmp_path: Path
) -> None:
    """One sequence and two shards, of which one is empty, in each step."""
    changes = ("imitate.iterations=1", "imitate.sequences=1", "reinforce.iterations=1",
               "reinforce.sequences=1", "episodes.settings=1", "episodes.shards=2",
               "validation.sequences=1", "evolve.iterations=1", "evolve.sequences=1",
               "evolve.pairs=2", "evolve.jobs=5")  # fmt: skip
    config = small(trace_file, *changes)
    run = tmp_path / "run"
    with RunFolder.create(run, config.to_json()) as folder:
        run_training(folder)
    imitated, reinforced, evolved = read_run(run).metrics
    for value in (imitated["loss"], reinforced["loss"], evolved["log_objective"]):
        assert math.isfinite(value)


def test_gaps_follow_from_the_trace_and_the_cluster(trace_file: Path) -> None:
    """At a load of 0.5 executors could do twice the work that comes; three loads are standard."""
    jobs = load_trace(str(trace_file)).jobs
    works_s = [sum(stage.num_tasks * stage.mean_ms for stage in job.stages) / 1_000 for job in jobs]
    config = read_config(None, ("workload.load=[0.5]",), {"trace": trace_file, "executors": 4})
    gaps = [
        evaluation.interarrival_s
        for evaluation in config.workload.evaluations()
        if evaluation.arrivals != "batch"
    ]
    assert gaps == pytest.approx([sum(works_s) / len(works_s) / (4 * 0.5)])
    # The run keeps them: its configuration has no need of the trace to say so.
    assert (config.workload.interarrival_s, config.workload.load) == (tuple(gaps), None)
    assert config_from(json.loads(json.dumps(config.to_json()))) == config
    standard = read_config(None, (), {"trace": trace_file, "executors": 4}).workload.evaluations()
    gaps_s = [setting.interarrival_s for setting in standard if setting.arrivals != "batch"]
    assert [gap_s / gaps[0] for gap_s in gaps_s] == pytest.approx([0.5 / 0.7, 0.5 / 0.9, 0.5 / 1.1])


def test_the_options_of_other_commands_are_settings(trace_file: Path, tmp_path: Path) -> None:
    """Gaps that were given are all that is trained on, unless a file asks for batches, too."""
    said = {"trace": str(trace_file), "protocol": "session", "interarrival_s": [3.0, 5.0]}
    workload = read_config(None, ("workload.executors=6",), said).workload
    assert (workload.trace, workload.protocol, workload.executors) == (
        str(trace_file),
        "session",
        6,
    )
    assert (workload.interarrival_s, workload.batch_jobs) == ((3.0, 5.0), ())
    path = tmp_path / "my.toml"
    path.write_text("[workload]\nload = [0.5]\nbatch_jobs = [7]\nexecutors = 9\n")
    workload = read_config(path, (), said).workload
    assert (workload.executors, workload.batch_jobs, workload.load) == (9, (7,), None)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--interarrival", 3, "--set", "workload.load=[0.5]"), "load and interarrival_s exclude"),
        (("--set", "workload.load=[0.0]"), "load must be a positive number"),
        (("--protocol", "slots"), "slots"),
        (("--config", "own.toml"), "workload.settings has traces and clusters of its own"),
        (("--set", "workload.settings=[{trace='tpch', load=0.5}]"), "workload.settings has traces"),
        (
            ("--set", "workload.interarrival_s=[]", "--set", "workload.batch_jobs=[]"),
            "neither load",
        ),
        (
            tuple(
                word
                for step in ("imitate", "reinforce", "evolve")
                for word in ("--set", f"{step}.iterations=0")
            ),
            "iterations of imitate, reinforce and evolve are all 0",
        ),
    ],
)
def test_options_that_break_a_rule_leave_no_folder(
    trace_file: Path,
    tmp_path: Path,
    words: tuple[object, ...],
    reason: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.toml").write_text(SETTINGS)
    refused(command("--out", "run", "--trace", trace_file, *words), reason)
    assert not Path("run").exists()


# --- files that are no settings -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("seed = true", "seed is True: a whole number is needed"),
        ("seed = 1.0", "seed is 1.0: a whole number is needed"),
        ("seed = " + "9" * 5_000, "not TOML"),
        ("seed = " + "9" * 400, "seed is 999"),
        ("[credit]\nhorizon = " + "9" * 400, "credit.horizon"),
        ("[credit]\nhorizon = inf", "credit.horizon is inf: a finite number is needed"),
        ("[reinforce]\nepochs = 3", "unknown setting reinforce.epochs (did you mean"),
        (f"[reinforce]\n{'x' * 10**5} = 3", "unknown setting reinforce.xxx"),
        ("[network]\nhidden = [1000000]", "layers of 1,024 units"),
        ("[network]\nhidden = [1000, 1000, 1000, 1000]", "parameters: at most"),
        ("[network]\nhead_hidden = []", "network: head_hidden"),
        (f'seed = "{"x" * 10**5}"', "seed is 'xxx"),
        ("seed = " + "[" * 5_000, "nested too deeply"),
        ("seed = '\x00'", "not TOML"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_in_one_short_line(
    text: str, part: str, tmp_path: Path
) -> None:
    """Types are not guessed, numbers of any length and depth are met, and little is echoed."""
    path = tmp_path / "my.toml"
    path.write_text(text)
    with raises_one_line(ConfigError) as refused:
        read_config(path)
    assert part in str(refused.value)
    assert len(str(refused.value)) < 600


def test_none_stands_for_what_toml_has_no_word_for() -> None:
    """For a setting that may be absent; a choice called "none" stays what it is."""
    changes = ("reinforce.max_kl=none", "credit.baseline=none", "validation.patience=3")
    config = read_config(None, changes)
    assert config.reinforce.max_kl is None
    assert config.credit.baseline == "none"
    assert config.validation.patience == 3
    assert config_from(config.to_json()) == config
