"""`policy="auto"`: what is put in force, and what is left behind where something fails."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from decima.spark.jobs import LiveJobs
from decima.spark.planning import Guard, Plan, Planner
from decima.spark.reports import SessionReport, TaskSet
from decima.spark.switching import Switch

from decima.registry import Heuristic
from decima.spark import AttachError, AutoSettings, Scheduler, attach, attaching
from decima.spark.auto import Auto, Choice
from decima.spark.errors import PolicyFaultError
from decima.spark.evaluator_process import EvaluatorError, EvaluatorProcess, Question
from decima.spark.loading import LoadingPolicy
from spark_sim import Action, Observation
from traces.spark_log.events import JobStart, StageInfo

# --- attaching -----------------------------------------------------------------------------------


@pytest.fixture
def no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """`attach` takes anything for a session, and nothing acts on it."""
    monkeypatch.setattr(attaching, "check_session", lambda spark: spark)
    monkeypatch.setattr(attaching, "_control", lambda _, mode, __: (SimpleNamespace(), mode))
    monkeypatch.setattr(attaching, "_order", lambda _: "fifo")


def test_what_is_refused_leaves_no_thread(no_session: None) -> None:
    """Whatever the reason, and however often."""
    before = set(threading.enumerate())
    cases: list[tuple[str, AutoSettings, str]] = [
        ("strict_fair", AutoSettings(), "auto is for policy="),
        ("auto", AutoSettings(candidates=("nobody",)), "nobody"),
        ("auto", AutoSettings(candidates=("decima:search",)), "looks ahead otherwise"),
    ]
    for policy, auto, said in cases:
        with pytest.raises((AttachError, ValueError), match=said):
            attach(SimpleNamespace(), policy, mode="shadow", auto=auto)
    assert set(threading.enumerate()) == before


# --- choosing ------------------------------------------------------------------------------------


class FakeAuto(Auto):
    """Chooses what it is told to; asks nobody."""

    def __init__(self) -> None:
        super().__init__(AutoSettings(), "fifo", None, EvaluatorProcess())
        self.next: Choice | None = None

    def look(self, live: LiveJobs, now_s: float) -> Choice | None:
        chosen, self.next = self.next, None
        self.choice = chosen or self.choice
        return chosen


class Control:
    """What Spark's order was left to, in turn."""

    def __init__(self) -> None:
        self.is_left: list[bool] = []

    def leave_to_spark(self, is_left: bool) -> None:
        self.is_left.append(is_left)


def test_a_policy_begins_ends_and_goes_into_shadow() -> None:
    own, control, taken = FakeAuto(), Control(), list[Any]()
    planner = SimpleNamespace(loading=None, switch=taken.append, warm_up=lambda _: None)
    switch = Switch(own, cast(Planner, planner), control, lambda name: cast(Any, name))
    live = LiveJobs()
    assert not switch.look(live, 0)
    own.next = Choice("tuned_srw", False, "")
    assert switch.look(live, 1)
    own.next = Choice("tuned_srw", True, "")
    assert switch.look(live, 2)  # in shadow it goes on planning, and Spark's order is in force
    own.next = Choice("fifo", False, "")
    assert not switch.look(live, 3)
    assert taken == ["tuned_srw"]
    assert control.is_left == [True, False, True]


def test_while_a_policy_is_loaded_sparks_order_runs_and_is_what_ran(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is predicted is held against that, not against the policy that was chosen."""
    is_ready = False
    monkeypatch.setattr(LoadingPolicy, "start", lambda _: None)
    monkeypatch.setattr(LoadingPolicy, "is_ready", lambda _: is_ready)
    auto, control = FakeAuto(), Control()
    planner = Planner(Heuristic("strict_fair").on, Guard())
    switch = Switch(auto, planner, control, LoadingPolicy)
    auto.next = Choice("decima", False, "")
    for is_ready, ran in ((False, "fifo"), (True, "decima"), (False, "fifo")):
        assert switch.look(LiveJobs(), 0) == is_ready
        assert auto._ran == ran
    assert control.is_left == [True, False, True]


def test_a_policy_that_was_refused_leaves_the_order_to_spark(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It cannot be loaded: it is not asked again before a verdict."""
    starts = list[str]()

    def start(policy: LoadingPolicy) -> None:
        starts.append(policy.name)

    def is_ready(policy: LoadingPolicy, wait_s: float = 0.0) -> bool:
        assert policy.refused is None
        policy.refused = "its weights"
        raise PolicyFaultError(policy.refused)

    monkeypatch.setattr(LoadingPolicy, "start", start)
    monkeypatch.setattr(LoadingPolicy, "is_ready", is_ready)
    auto, control = FakeAuto(), Control()
    planner = Planner(Heuristic("strict_fair").on, Guard())
    switch = Switch(auto, planner, control, LoadingPolicy)
    auto.next = Choice("decima", False, "")
    assert not switch.look(LiveJobs(), 0)
    assert not switch.look(LiveJobs(), 1)
    assert control.is_left == [True]
    assert switch.choice == ("fifo", False, "decima: its weights")
    assert starts == ["decima"]


def test_a_policy_whose_file_has_gone_leaves_the_order_to_spark(tmp_path: Path) -> None:
    """It was there when the session was attached to."""
    model = str(tmp_path / "model.safetensors")
    auto, control = FakeAuto(), Control()
    planner = Planner(Heuristic("strict_fair").on, Guard())
    switch = Switch(auto, planner, control, lambda name: attaching.policy_for(name)[0])
    auto.next = Choice(model, False, "")
    assert not switch.look(LiveJobs(), 0)
    assert control.is_left == [True]
    assert switch.choice[:2] == ("fifo", False)
    assert "no such file" in switch.choice.why


def test_a_policy_that_fails_in_its_rounds_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scheduler goes on without it, and asks the next verdict."""

    class Wrong:
        name = "wrong"

        def decide(self, seen: Observation) -> Action:
            raise ValueError("no idea")

    auto, control = FakeAuto(), Control()
    planner = Planner(Heuristic("strict_fair").on, Guard(failures=2))
    monkeypatch.setattr(planner, "warm_up", lambda _: None)
    switch = Switch(auto, planner, control, lambda _: lambda _trace: Wrong())
    auto.next = Choice("tuned_srw", False, "")
    session = Session(rounds=20)
    scheduler = Scheduler(session, planner, LiveJobs(), mode="exact", policy="auto", switch=switch)
    scheduler.start()
    scheduler._thread.join(timeout=60)
    scheduler.detach()
    assert planner.failures == 2
    assert not scheduler.is_attached
    assert control.is_left == [False, True]
    assert switch.choice == ("fifo", False, "tuned_srw: the policy failed 2 times in a row")


def test_a_policy_that_is_made_late_does_not_take_the_next_ones_place() -> None:
    """It was asked for before the switch, and is there after it."""
    may_go, live = threading.Event(), LiveJobs()
    live.update(Session(2).wait(0))

    def late(_trace: object) -> Heuristic:
        may_go.wait(60)
        return Heuristic("fifo")

    planner = Planner(late, Guard(decision_s=0.05))
    plan = planner.plan(live)
    assert plan is not None
    assert "no answer within" in str(plan.fault)
    busy = planner._busy
    assert busy is not None
    planner.switch(lambda _trace: Heuristic("strict_fair"))
    may_go.set()
    busy.result(timeout=60)
    planner._guard = Guard(decision_s=60.0)
    plan = planner.plan(live)
    planner.close()
    assert plan is not None
    assert (plan.by, plan.fault) == ("strict_fair", None)


class Session:
    """A session of one job that waits, let go of after so many reports."""

    def __init__(self, rounds: int) -> None:
        self._rounds = rounds
        self._is_new = True

    def attach(self) -> None: ...

    def detach(self) -> None: ...

    def wait(self, timeout_ms: int) -> SessionReport:
        events: tuple[JobStart, ...] = ()
        if self._is_new:
            events = (JobStart(0, 0, (StageInfo(0, 9, (), b"a"),), {}),)
        self._is_new = False
        self._rounds -= 1
        sets = (TaskSet(0, 0, "spark 0", 9, 0, 0),)
        return SessionReport(1_000, 4, 0, False, self._rounds > 0, 0, sets, events)

    def apply(self, plan: Plan, number: int) -> None: ...

    def counters(self) -> dict[str, Any]:
        return {}

    def is_stopped(self) -> bool:
        return False


# --- closing -------------------------------------------------------------------------------------


def test_an_evaluator_that_is_closed_while_its_process_starts_ends_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """There was nothing to kill yet."""
    evaluator, started = EvaluatorProcess(), list[subprocess.Popen[bytes]]()

    def start(command: list[str], **arguments: Any) -> subprocess.Popen[bytes]:
        evaluator.close()
        started.append(popen(["sleep", "60"], **arguments))
        return started[-1]

    popen = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", start)
    asked = Question(1, "fifo", "fifo", 0, ("tuned_srw",), "exact", (), True, {})
    with pytest.raises(EvaluatorError, match="closed"):
        evaluator.ask(asked).result(timeout=30)
    assert started[0].returncode is not None
