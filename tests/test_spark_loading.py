"""Learned policies of a live session: loaded beside the driver's work, without torch."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from decima.spark.jobs import LiveJobs
from decima.spark.planning import Guard, Planner
from decima.spark.reports import ReportError, SessionReport, TaskSet, read_report

from decima.agent.model import load_model, save_model
from decima.policy_names import model_path
from decima.registry import Heuristic
from decima.spark import frames, loading
from decima.spark.attaching import policy_for, prepare
from decima.spark.errors import AttachError, PolicyFaultError
from decima.spark.loading import LoadingPolicy, PolicyFor, learned
from decima.spark.model_card import read_card, trained_slots
from spark_sim import PASS, Action, Observation
from traces.spark_log.events import JobStart, StageInfo

READY_S = 300.0
PATIENT = Guard(decision_s=60.0)
"""on a busy machine"""


def session(*waiting: int, running: int = 1, slots: int = 8) -> LiveJobs:
    """A job of one stage for each number of tasks."""
    live = LiveJobs()
    begun = tuple(
        JobStart(row, row, (StageInfo(row, tasks, (), f"r{row}".encode()),), {})
        for row, tasks in enumerate(waiting)
    )
    sets = tuple(
        TaskSet(row, 0, f"spark {row}", tasks, 0, running) for row, tasks in enumerate(waiting)
    )
    live.update(SessionReport(1_000, slots, 0, False, True, 0, sets, begun))
    return live


# --- loading -------------------------------------------------------------------------------------


def planned_by(planner: Planner) -> tuple[str, str | None]:
    """Return who made the next plan, and why not the policy."""
    plan = planner.plan(session(9, 30, 3))
    assert plan is not None
    return plan.by, plan.fault


def test_strict_fair_decides_until_the_policy_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which is no failure; then it plans as the same model does without a thread."""
    may_load = threading.Event()

    def late(policy: LoadingPolicy) -> PolicyFor:
        may_load.wait(60)
        return load(policy)

    load = LoadingPolicy._load
    monkeypatch.setattr(LoadingPolicy, "_load", late)
    own = LoadingPolicy("decima")
    assert not own.is_ready()
    own.start()
    planner = Planner(own, PATIENT)
    assert planned_by(planner) == ("strict_fair", None)
    assert (planner.is_ready, planner.failures, planner.given_up) == (False, 0, None)
    may_load.set()
    assert own.is_ready(READY_S)
    assert planner.is_ready
    live, other = session(9, 30, 3), Planner(learned("decima"), PATIENT)
    for _ in range(2):
        plan, expected = planner.plan(live), other.plan(live)
        assert plan is not None
        assert plan == expected
        assert (plan.by, plan.fault) == ("decima", None)
    planner.close()
    other.close()


def test_the_driver_loads_no_torch() -> None:
    """Which `attach` would pay for with seconds and with hundreds of megabytes."""
    code = """
import sys
import tests.test_spark_loading as t
from decima.spark.attaching import trained_slots_of

assert trained_slots_of("decima") is not None
policy, _ = t.policy_for("decima")
planner = t.Planner(policy, t.PATIENT)
t.prepare(planner, "decima", t.READY_S)
plan = planner.plan(t.session(9, 30, 3))
print(plan.by, plan.fault, "torch" in sys.modules)
"""
    done = subprocess.run(  # noqa: S603 - our own code
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["decima", "None", "False"]


def test_a_model_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    """Its header is a model's, its weights are not: the policy is given up, in one line."""
    model = load_model(model_path("decima"))
    weights = {name: value * float("nan") for name, value in model.network.state_dict().items()}
    path = tmp_path / "broken.safetensors"
    save_model(path, model.network.config, weights, model.card)
    assert trained_slots(read_card(path)) == trained_slots(model.card)
    planner = Planner(policy_for(str(path))[0], PATIENT)
    with pytest.raises(AttachError, match="not all finite"):
        prepare(planner, str(path), READY_S)
    by, fault = planned_by(planner)
    assert by == "strict_fair"
    assert "not all finite" in str(fault)
    assert planner.given_up is not None
    assert "\n" not in planner.given_up
    planner.close()


def test_an_error_while_loading_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(policy: LoadingPolicy) -> PolicyFor:
        raise MemoryError(policy.name)

    monkeypatch.setattr(LoadingPolicy, "_load", broken)
    own = LoadingPolicy("decima")
    own.start()
    with pytest.raises(PolicyFaultError, match="MemoryError: decima"):
        own.is_ready(READY_S)
    assert own.refused == "MemoryError: decima"


def test_a_policy_that_is_not_ready_in_time_is_not_attached(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    may_load = threading.Event()
    monkeypatch.setattr(LoadingPolicy, "_load", lambda _policy: may_load.wait(60))
    planner = Planner(LoadingPolicy("decima"), PATIENT)
    with pytest.raises(AttachError, match=r"decima: not ready after 0.01 s"):
        prepare(planner, "decima", 0.01)
    may_load.set()
    planner.close()


def test_a_load_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    may_load = threading.Event()
    monkeypatch.setattr(LoadingPolicy, "_load", lambda _policy: may_load.wait(60))
    own = LoadingPolicy("decima")
    own.start()
    assert not own.is_ready()
    monkeypatch.setattr(loading, "LOADING_S", 0.0)
    with pytest.raises(PolicyFaultError, match="not loaded after 0 s"):
        own.is_ready()
    assert own.refused is not None
    may_load.set()


def test_a_model_that_was_trained_again_is_read_again(tmp_path: Path) -> None:
    """Its file has the same name, and the driver lives on."""
    model, path = load_model(model_path("decima")), tmp_path / "model.safetensors"
    live, limits = session(9, 30, 3), list[dict[str, int]]()
    for factor in (1.0, 0.0):
        state = {name: value * factor for name, value in model.network.state_dict().items()}
        save_model(path, model.network.config, state, model.card)
        planner = Planner(learned(str(path)), PATIENT)
        plan = planner.plan(live)
        planner.close()
        assert plan is not None
        assert plan.fault is None
        limits.append(plan.limits)
    assert limits[0] != limits[1]


class Late:
    """A policy that answers when it may; what it reads meanwhile must stay as it is."""

    name = "late"

    def __init__(self) -> None:
        self.may_go = threading.Event()
        self.seen: Observation | None = None

    def decide(self, seen: Observation) -> Action:
        self.seen = seen
        self.may_go.wait(60)
        return PASS


def test_a_late_policy_keeps_its_tables_and_holds_up_no_other() -> None:
    """Machine code may still walk through them; the next policy has a thread of its own."""
    late, live = Late(), session(9, 30, 3)
    planner = Planner(lambda _: late, Guard(decision_s=0.2))
    assert planned_by(planner) == ("strict_fair", "no answer within 0.2 s")
    assert late.seen is not None
    kept = late.seen.stages
    plan = planner.plan(live)
    assert plan is not None
    assert "still busy" in str(plan.fault)
    assert not np.shares_memory(kept, planner._tables.state.stages)
    planner.switch(lambda _: Heuristic("fifo"))
    planner._guard = PATIENT
    assert planned_by(planner) == ("fifo", None)
    late.may_go.set()
    planner.close()


# --- what the driver checks ----------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"no model", b""], ids=["text", "empty"])
def test_a_file_that_is_no_model_is_refused_at_once(tmp_path: Path, content: bytes) -> None:
    """In one line, without starting anything."""
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    with pytest.raises(AttachError, match="not a model") as caught:
        read_card(path)
    assert str(path) in str(caught.value)
    with pytest.raises(AttachError, match="no such file"):
        read_card(tmp_path / "absent.safetensors")


@pytest.mark.parametrize(
    "text", ["", "[]", "{", "{}", "9" * 5000, '{"sets": 3}', '{"time_ms": NaN}', "[" * 10**5]
)
def test_a_damaged_report_of_the_jvm_is_one_kind_of_error(text: str) -> None:
    with pytest.raises(ReportError, match=r"^report of the JVM.*$"):
        read_report(text)


# --- frames of the plugin's worker ---------------------------------------------------------------


def test_frames_of_any_size_arrive_whole_or_not_at_all() -> None:
    """A frame that stops half-way is no frame, and one that is too long is refused."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        for size in (0, 1, 70_000):
            frames.send(ours, b"x" * size)
            assert frames.receive(theirs) == b"x" * size
        ours.sendall((5).to_bytes(4, "big") + b"ab")
        ours.shutdown(socket.SHUT_WR)
        assert frames.receive(theirs) is None
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(b"\xff\xff\xff\xff")
        with pytest.raises(frames.FrameError, match="4294967295 bytes"):
            frames.receive(theirs)
