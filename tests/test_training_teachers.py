"""Teachers: what a heuristic does in a round, as a plan that the network could have made."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from decima.agent import plans
from decima.agent.graph import Legal
from decima.agent.plans import Plans
from decima.agent.rollout import Lanes, Lockstep
from decima.policies import Heuristic
from decima.training.config import ImitateConfig
from decima.training.episodes import EpisodeSource
from decima.training.teachers import Labeller, average_jct_s, best_teacher, copied
from spark_sim.kernels.dispatch import assign
from spark_sim.observation import PASS, observe
from spark_sim.tables import ANY, DECIDE, NONE, State
from spark_sim.vector import VectorSimulator
from tests.test_agent_support import (
    ARRAYS,
    CLUSTERS,
    SCALES,
    batch_run,
    random_network,
    run_of,
)
from tests.test_training_config import small

RUNS = [run_of(2, jobs=8), batch_run(1, jobs=8)]
NETWORK = random_network(7)
TEACHERS = (*ImitateConfig().teachers, "fifo", "strict_fair", "spark_fair")


class Case(NamedTuple):
    """One decision, and the plan that a teacher would make."""

    lane: int
    state: State
    legal: Legal
    stage_row: np.ndarray[tuple[int], np.dtype[np.int64]]  # (O,) the simulation's own
    label: Plans  # one


def cases(teacher: str, cluster: str) -> list[Case]:
    """Decisions of runs that a random network plays, with a choice and a label."""
    lanes = Lanes(ARRAYS, CLUSTERS[cluster], RUNS, np.arange(1, 3).astype(np.uint64))
    lockstep = Lockstep(NETWORK, SCALES, lanes)
    simulators: VectorSimulator = lockstep.simulators
    labeller = Labeller(teacher, simulators, ARRAYS)
    found: list[Case] = []
    for step in lockstep:
        legal = step.seen.tables.legal
        with_choice = np.flatnonzero(np.diff(legal.open_ptr) > 0)
        before = [copied(simulators.state(lane)) for lane in range(len(RUNS))]
        labels = labeller.label(step.plans, legal, with_choice)
        own = simulators.observation().stage_row[legal.open_stage].astype(np.int64)
        for lane in with_choice.tolist():
            assert_unchanged(before[lane], simulators.state(lane))
            if labels.used[lane] > 0:
                one = plans.picked(labels, np.array([lane]))
                found.append(Case(lane, before[lane], legal, own, one))
        simulators.follow(plans.preferences(step.plans, legal))
    return found


def assert_unchanged(before: State, after: State) -> None:
    """Labels are made on a copy."""
    for one, other in zip(before[:-1], after[:-1], strict=True):
        assert one.tobytes() == other.tobytes()


class Round(NamedTuple):
    """What a round gives."""

    held: list[int]
    """executors of each job then"""
    is_known: bool
    """whether all stages chosen were among those that the network was asked about"""


def by_the_heuristic(case: Case, teacher: str) -> Round:
    """One choice after the other."""
    state, policy = copied(case.state), Heuristic(teacher, trace=ARRAYS)
    asked = stages_of(case)
    is_known, status = True, DECIDE
    while status == DECIDE:
        action = policy.decide(observe(state))
        if action == PASS:
            break
        is_known &= action.stage in asked
        status = assign(state, action.stage, action.limit, action.kind)
    return Round(state.jobs["held"].tolist(), is_known)


def by_the_label(case: Case) -> Round:
    """The plan's stages in their order, each up to its job's limit."""
    state = copied(case.state)
    wanted = plans.preferences(case.label, case.legal)
    own = dict(zip(case.legal.open_stage.tolist(), case.stage_row.tolist(), strict=True))
    for stage, limit, kind in zip(*(part.tolist() for part in wanted[1:]), strict=True):
        if stage == NONE:
            break
        row = state.stages[own[stage]]
        if row["open"] == 0 or state.jobs["held"][row["job"]] >= limit:
            continue
        if kind != ANY and len(state.classes) > 1 and state.classes["on_offer"][kind] == 0:
            continue
        if assign(state, own[stage], limit, kind) != DECIDE:
            break
    return Round(state.jobs["held"].tolist(), True)


def stages_of(case: Case) -> set[int]:
    """The stages that the network was asked about."""
    own = slice(*case.legal.open_ptr[case.lane : case.lane + 2])
    return set(case.stage_row[own].tolist())


def is_on_the_menu(case: Case, held: list[int]) -> bool:
    """Whether each job that was given executors could have had that limit."""
    legal, lane = case.legal, case.lane
    jobs = range(int(legal.job_ptr[lane]), int(legal.job_ptr[lane + 1]))
    rows = np.flatnonzero(case.state.jobs["active"])
    before = case.state.jobs["held"]
    for job, row in zip(jobs, rows.tolist(), strict=True):
        own = legal.limit[legal.limit_ptr[job] : legal.limit_ptr[job + 1]]
        if held[row] != before[row] and held[row] not in own:
            return False
    return True


@pytest.mark.parametrize("cluster", ["executors", "session", "decima-sim"])
@pytest.mark.parametrize("teacher", TEACHERS)
def test_labels_give_what_the_heuristic_gives(teacher: str, cluster: str) -> None:
    """The same executors to the same jobs, wherever a plan can say so."""
    compared = given = 0
    for case in cases(teacher, cluster):
        wanted = by_the_heuristic(case, teacher)
        if not wanted.is_known or not is_on_the_menu(case, wanted.held):
            continue
        assert by_the_label(case).held == wanted.held
        compared += 1
        given += wanted.held != case.state.jobs["held"].tolist()
    assert compared > 40
    assert given > 30


@pytest.mark.parametrize("teacher", ["es_classes", "sjf_cp"])
def test_labels_name_classes(teacher: str) -> None:
    """A plan names one class for a stage; where the heuristic names no other, jobs get the same."""
    every = cases(teacher, "classes")
    alike = [by_the_label(one).held == by_the_heuristic(one, teacher).held for one in every]
    assert len(alike) > 40
    assert np.mean(alike) > 0.8


def test_labels_look_at_the_entries_chosen_alone() -> None:
    """Each stage once, the end behind those that were chosen, and limits that the jobs have."""
    for case in cases("tuned_srw", "executors"):
        label, legal, lane = case.label, case.legal, case.lane
        stages = len(stages_of(case))
        assert sorted(label.order.tolist()) == list(range(stages + 1))
        end = label.order.tolist().index(stages)
        assert int(label.used[0]) in (end, end + 1)
        first = legal.limit_ptr[legal.job_ptr[lane]]
        for job, number in enumerate(label.limit.tolist(), start=int(legal.job_ptr[lane])):
            own = range(int(legal.limit_ptr[job] - first), int(legal.limit_ptr[job + 1] - first))
            assert number in own or (number == -1 and len(own) == 0)


def test_the_best_teacher_of_a_setting_is_chosen(trace_file: object) -> None:
    """On sequences of its own: the heuristic with the least average JCT, against strict fair."""
    config = small(trace_file)  # type: ignore[arg-type]
    source = EpisodeSource(config)
    setting = source.settings[0]
    arrays = source.workload(setting).arrays
    episodes = source.for_choosing_teachers(setting, 6)
    names = ("fifo", "sjf_cp", "tuned_srw")
    jct_s = {name: average_jct_s(name, episodes, arrays) for name in names}
    best = min(jct_s, key=lambda name: jct_s[name])
    found = best_teacher(names, source, setting, arrays)
    fair_s = average_jct_s("strict_fair", episodes, arrays)
    assert found.name == best
    assert found.percent == pytest.approx(100 * (jct_s[best] / fair_s - 1))
