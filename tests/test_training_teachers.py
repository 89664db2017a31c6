"""Teachers: what a heuristic does in a round, as a plan that the network could have made."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from decima.agent import plans
from decima.agent.columns import Choices
from decima.agent.plans import Plans
from decima.agent.rollout import Lanes, Lockstep
from decima.errors import ConfigError
from decima.objectives import objective_named
from decima.registry import Heuristic
from decima.rl.errors import RunError
from decima.training.config import ImitateConfig
from decima.training.episodes import EpisodeSource, figures
from decima.training.play import TrainingContext
from decima.training.teachers import HeuristicLabeller, NetworkLabeller, best_teacher
from spark_sim.kernels.dispatch import assign
from spark_sim.observation import PASS, observe
from spark_sim.setup import copied
from spark_sim.tables import ANY, DECIDE, NONE, State
from spark_sim.vector import VectorSimulator
from tests.test_agent_support import ARRAYS, CLUSTERS, SCALES, batch_run, random_network, run_of
from tests.test_training import small

RUNS = [run_of(2, jobs=8), batch_run(1, jobs=8)]
NETWORK = random_network(2)
TEACHERS = (*ImitateConfig().teachers, "fifo", "strict_fair", "spark_fair")
OTHERS = ("session", "decima-sim")


class Case(NamedTuple):
    """One decision, and the plan that a teacher would make."""

    lane: int
    state: State
    legal: Choices
    stage_row: np.ndarray[tuple[int], np.dtype[np.int64]]  # (O,) the simulation's own
    label: Plans  # one


def cases(teacher: str, cluster: str) -> Iterator[Case]:
    """Decisions of runs that a random network plays, with a choice and a label.

    Each is good until the next: the simulators write over what it points to.
    """
    lanes = Lanes(ARRAYS, CLUSTERS[cluster], RUNS, np.arange(1, 3).astype(np.uint64))
    lockstep = Lockstep(NETWORK, SCALES, lanes)
    simulators: VectorSimulator = lockstep.simulators
    labeller = HeuristicLabeller(teacher, simulators, ARRAYS)
    for step in lockstep:
        legal = step.scored.choices
        with_choice = np.flatnonzero(np.diff(legal.open_ptr) > 0)
        before = [copied(simulators.state(lane)) for lane in range(len(RUNS))]
        labels = labeller.label(step.plans, step.scored, with_choice)
        own = simulators.observation().stage_row[legal.open_stage].astype(np.int64)
        for lane in with_choice.tolist():
            assert_unchanged(before[lane], simulators.state(lane))
            if labels.used[lane] > 0:
                label = plans.picked(labels, np.array([lane]))
                yield Case(lane, before[lane], legal, own, label)
        simulators.follow(plans.preferences(step.plans, legal))


def assert_unchanged(before: State, after: State) -> None:
    """Labels are made on a copy."""
    tables: list[tuple[Any, Any]] = list(zip(before[:-1], after[:-1], strict=True))
    for changed, other in tables:
        # Field by field: not the bytes between them.
        for name in changed.dtype.names or ():
            np.testing.assert_array_equal(changed[name], other[name])


class Round(NamedTuple):
    """What a round gives."""

    given: dict[int, int]
    """executors for each job that gets one"""
    is_known: bool
    """whether all stages chosen were among those that the network was asked about"""
    is_again: bool
    """whether the round is due again: a stage has opened, or a class of executors has run out"""


def given(before: State, after: State) -> dict[int, int]:
    """Tasks of each job that have an executor now, and had none."""
    more = after.stages["covered"].astype(int) - before.stages["covered"]
    jobs = after.stages["job"]
    return {int(job): int(more[jobs == job].sum()) for job in np.unique(jobs[more > 0])}


def by_the_heuristic(case: Case, teacher: str) -> Round:
    """One choice after the other, to where a plan would end."""
    state, policy = copied(case.state), Heuristic(teacher, trace=ARRAYS)
    asked = stages_of(case)
    while True:
        action = policy.decide(observe(state))
        if action == PASS:
            return Round(given(case.state, state), True, False)
        if action.stage not in asked:
            return Round(given(case.state, state), False, False)
        if assign(state, action.stage, action.limit, action.kind) != DECIDE:
            return Round(given(case.state, state), True, False)
        if not open_stages(state) <= asked:
            return Round(given(case.state, state), True, True)


def by_the_label(case: Case) -> Round:
    """As `choices.follow` plays the plan, up to where the round is over or due again."""
    state = copied(case.state)
    wanted = plans.preferences(case.label, case.legal)
    own = dict(zip(case.legal.open_stage.tolist(), case.stage_row.tolist(), strict=True))
    for stage, limit, kind in zip(*(part.tolist() for part in wanted[1:]), strict=True):
        if stage == NONE:
            break
        row = state.stages[own[stage]]
        if row["open"] == 0 or state.jobs["held"][row["job"]] >= limit:
            continue
        if kind != ANY and state.classes["on_offer"][kind] == 0:
            break
        if assign(state, own[stage], limit, kind) != DECIDE:
            break
        has_run_out = kind != ANY and row["open"] == 1
        if has_run_out or not open_stages(state) <= stages_of(case):
            return Round(given(case.state, state), True, True)
    return Round(given(case.state, state), True, False)


def open_stages(state: State) -> set[int]:
    return set(np.flatnonzero(state.stages["open"]).tolist())


def stages_of(case: Case) -> set[int]:
    """The stages that the network was asked about."""
    own = slice(*case.legal.open_ptr[case.lane : case.lane + 2])
    return set(case.stage_row[own].tolist())


def is_on_the_menu(case: Case, wanted: Round) -> bool:
    """Whether each job that was given executors could have had that limit."""
    legal, lane = case.legal, case.lane
    jobs = range(int(legal.job_ptr[lane]), int(legal.job_ptr[lane + 1]))
    rows = np.flatnonzero(case.state.jobs["active"])
    for job, row in zip(jobs, rows.tolist(), strict=True):
        own = legal.limit[legal.limit_ptr[job] : legal.limit_ptr[job + 1]]
        if row in wanted.given and case.state.jobs["held"][row] + wanted.given[row] not in own:
            return False
    return True


@pytest.mark.parametrize(
    ("teacher", "cluster"),
    [
        *((teacher, "executors") for teacher in TEACHERS),
        *((teacher, cluster) for teacher in ("tuned_srw", "sjf_cp") for cluster in OTHERS),
    ],
)
def test_labels_give_what_the_heuristic_gives(teacher: str, cluster: str) -> None:
    """The same executors to the same jobs, wherever a plan can say so."""
    compared = 0
    for case in cases(teacher, cluster):
        wanted = by_the_heuristic(case, teacher)
        if not wanted.is_known or not is_on_the_menu(case, wanted):
            continue
        labelled = by_the_label(case)
        assert (labelled.given, labelled.is_again) == (wanted.given, wanted.is_again)
        compared += len(wanted.given) > 0
    assert compared > 30


@pytest.mark.parametrize("teacher", ["es_classes", "sjf_cp"])
def test_labels_name_classes(teacher: str) -> None:
    """One for each stage; where it runs out first, the plan ends there and jobs have part of it."""
    ended = whole = 0
    for case in cases(teacher, "classes"):
        wanted, labelled = by_the_heuristic(case, teacher), by_the_label(case)
        if not wanted.is_known or not is_on_the_menu(case, wanted):
            continue
        if labelled.is_again:
            assert all(count <= wanted.given.get(job, 0) for job, count in labelled.given.items())
            ended += 1
        else:
            assert labelled.given == wanted.given
            whole += 1
        # A choice whose job is at its limit until others leave gives nothing, whoever makes it.
        assert bool(labelled.given) == bool(wanted.given)
    assert ended > 20
    assert whole > 20


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
