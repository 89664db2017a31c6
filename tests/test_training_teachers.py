"""Teachers: what a heuristic does in a round, as a plan that the network could have made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from decima import EvaluationConfig
from decima.agent import plans
from decima.agent.graph import GraphSorter
from decima.agent.rollout import Lanes, Lockstep
from decima.errors import ConfigError
from decima.objectives import OBJECTIVES, objective_named
from decima.rl.errors import RunError
from decima.training.config import ImitateConfig, TrainConfig
from decima.training.episodes import Episode, EpisodeSource, Setting, figures
from decima.training.play import Player, TrainingContext
from decima.training.teachers import NetworkLabeller, best_teacher
from spark_sim.setup import copied
from spark_sim.tables import State
from tests.test_agent_support import ARRAYS, CLUSTERS, SCALES, batch_run, random_network, run_of
from tests.test_training import small

RUNS = [run_of(2, jobs=8), batch_run(1, jobs=8)]
NETWORK = random_network(2)
TEACHERS = (*ImitateConfig().teachers, "fifo", "strict_fair", "spark_fair")
OTHERS = ("session", "decima-sim")


@pytest.mark.parametrize(
    ("teacher", "cluster"),
    [
        *((teacher, "executors") for teacher in TEACHERS),
        *((teacher, cluster) for teacher in ("tuned_srw", "sjf_cp") for cluster in OTHERS),
        ("es_classes", "classes"),
        ("sjf_cp", "classes"),
    ],
)
def test_labels_play_as_their_teacher(
    teacher: str, cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sequences that are played by labels alone end as under the heuristic itself. Where a choice
    opens a stage that the heuristic takes in the same round, or a plan names one class for a stage
    that is given several, a run may take another course now and then.
    """
    monkeypatch.setattr(EvaluationConfig, "cluster", lambda _: CLUSTERS[cluster])
    setting = Setting(0, EvaluationConfig())
    runs = [*RUNS, *(run_of(seed, jobs=12) for seed in range(100, 106))]
    episodes = [Episode(setting, number, run) for number, run in enumerate(runs)]
    player = Player(TrainConfig(), ARRAYS, GraphSorter(ARRAYS), OBJECTIVES["avg_jct"])
    batch = player.demonstrations(NETWORK, episodes, teacher, 0)
    assert batch is not None
    assert batch.advantage.tolist() == [1.0] * len(batch.recording.plans.decision)
    expected = np.array(figures(episodes, ARRAYS, teacher, OBJECTIVES["avg_jct"]))
    assert np.array(batch.figures) == pytest.approx(expected, rel=0.02)
    assert np.mean(np.array(batch.figures) == expected) > 0.5


@pytest.mark.parametrize("name", ["avg_jct", "makespan"])
def test_the_best_teacher_of_a_setting_is_chosen(trace_file: Path, name: str) -> None:
    """On sequences of its own: the heuristic with the least objective, against strict fair."""
    objective = objective_named(name)
    config = small(trace_file)
    source = EpisodeSource(config)
    setting = source.settings[0]
    arrays = source.workload(setting).arrays
    episodes = source.for_choosing_teachers(setting, 6)
    names = ("fifo", "sjf_cp", "tuned_srw")
    means = {name: np.mean(figures(episodes, arrays, name, objective)) for name in names}
    best = min(means, key=lambda name: means[name])
    teacher = best_teacher(names, source, setting, arrays, objective, {})
    fair = np.mean(figures(episodes, arrays, "strict_fair", objective))
    assert teacher.name == best
    assert teacher.percent == pytest.approx(100 * (means[best] / fair - 1))


# --- networks as teachers ------------------------------------------------------------------------


def assert_unchanged(before: State, after: State) -> None:
    """Labels are made on a copy."""
    tables: list[tuple[Any, Any]] = list(zip(before[:-1], after[:-1], strict=True))
    for changed, other in tables:
        # Field by field: not the bytes between them.
        for name in changed.dtype.names or ():
            np.testing.assert_array_equal(changed[name], other[name])


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_labels_of_the_network_that_plays_are_its_own_plans(cluster: str) -> None:
    """With as many entries used as the simulators use when they follow them."""
    lockstep = Lockstep(NETWORK, SCALES, Lanes(ARRAYS, CLUSTERS[cluster], RUNS, None))
    simulators = lockstep.simulators
    labeller = NetworkLabeller(NETWORK.weights(), simulators, ARRAYS)
    decisions = 0
    for step in lockstep:
        legal = step.scored.choices
        lanes = np.flatnonzero(np.diff(legal.open_ptr) > 0)
        before = [copied(simulators.state(lane)) for lane in range(len(RUNS))]
        labels = labeller.label(step.plans, step.scored, lanes)
        for lane in lanes.tolist():
            assert_unchanged(before[lane], simulators.state(lane))
        for name in ("order", "limit", "kind"):
            np.testing.assert_array_equal(getattr(labels, name), getattr(step.plans, name))
        used = simulators.follow(plans.preferences(step.plans, legal))
        np.testing.assert_array_equal(labels.used[lanes], used[lanes])
        decisions += len(lanes)
    assert decisions > 20


def test_a_model_file_teaches_where_it_is_best(trace_file: Path, tmp_path: Path) -> None:
    """`imitate.teachers` takes heuristics, the shipped network and model files."""
    config = small(trace_file, "imitate.teachers=['fifo', 'decima']")
    context = TrainingContext(config)
    setting = context.source.settings[0]
    arrays = context.source.workload(setting).arrays
    percent = {
        name: best_teacher(
            (name,), context.source, setting, arrays, context.objective, context.networks
        ).percent
        for name in config.imitate.teachers
    }
    assert percent["fifo"] != percent["decima"]
    assert context.teacher(setting).name == min(percent, key=lambda name: percent[name])
    with pytest.raises(ConfigError, match="'decima:sampled' draws its plans"):
        small(trace_file, "imitate.teachers=['decima:sampled']")
    missing = tmp_path / "missing.safetensors"
    with pytest.raises(RunError, match="missing"):
        TrainingContext(small(trace_file, f"imitate.teachers=['{missing}']"))
