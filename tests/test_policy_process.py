"""A learned policy in a process of its own: the same decisions, and whatever becomes of it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from decima.spark import wire
from decima.spark.errors import AttachError, PolicyFaultError
from decima.spark.jobs import LiveJobs
from decima.spark.model_card import read_card, trained_slots
from decima.spark.planning import Guard, Planner, rehearsal
from decima.spark.policy_process import PolicyProcess
from decima.spark.policy_server import Server, learned, serve
from decima.spark.reports import ReportError, SessionReport, TaskSet, read_report
from spark_sim import Action, IllegalActionError, Observation
from spark_sim.rounds import Round
from traces.spark_log.events import JobStart, StageInfo

READY_S = 120.0
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


# --- the protocol --------------------------------------------------------------------------------


def test_requests_and_actions_arrive_as_they_were_sent() -> None:
    """Tables, decisions made before, and graphs, which are left out where they are known."""
    tables, _ = rehearsal()
    given = [Action(2, 1)]
    found = wire.read_request(wire.request_bytes(tables.state, given, with_graphs=True))
    assert found.given == given
    for name, rows in found.tables.items():
        assert rows.tobytes() == getattr(tables.state, name).tobytes()
    assert found.graphs is not None
    for name, mine in tables.state.trace._asdict().items():
        theirs = getattr(found.graphs, name)
        np.testing.assert_array_equal(mine, theirs)
        assert mine.dtype == theirs.dtype
    again = wire.read_request(wire.request_bytes(tables.state, [], with_graphs=False))
    assert (again.given, again.graphs) == ([], None)
    actions = [Action(3, 2), Action(-1, 0)]
    assert wire.read_actions(wire.actions_bytes(actions)[1:]) == actions


def test_frames_of_any_size_arrive_whole_or_not_at_all() -> None:
    """A frame that stops half-way is no frame; one that does not come is told in time."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        for size in (0, 1, 70_000):
            wire.send(ours, b"x" * size)
            assert wire.receive(theirs) == b"x" * size
        with pytest.raises(TimeoutError):
            wire.receive(theirs, time.monotonic() + 0.05)
        ours.sendall((5).to_bytes(4, "big") + b"ab")
        ours.shutdown(socket.SHUT_WR)
        assert wire.receive(theirs) is None
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(b"\xff\xff\xff\xff")
        with pytest.raises(ValueError, match="4294967295 bytes"):
            wire.receive(theirs)


class Scripted:
    """Answers in order; raises what is an error."""

    name = "scripted"

    def __init__(self, *answers: Action | Exception) -> None:
        self._answers = iter(answers)

    def decide(self, seen: Observation) -> Action:
        answer = next(self._answers)
        if isinstance(answer, Exception):
            raise answer
        return answer


def reply(*answers: Action | Exception, given: tuple[Action, ...] = ()) -> bytes:
    """Of a server whose policy is scripted, for the rehearsal's jobs on four slots."""
    tables, _ = rehearsal()
    data = wire.request_bytes(tables.state, given, with_graphs=True)
    return Server(lambda _: Scripted(*answers)).answer(data)


def test_a_server_plays_the_round_to_its_end() -> None:
    """What was given before counts; an illegal action ends the reply; an error is one."""
    assert reply(Action(2, 2), Action(0, 2)) == wire.actions_bytes([Action(2, 2), Action(0, 2)])
    assert reply(Action(0, 2), given=(Action(2, 2),)) == wire.actions_bytes([Action(0, 2)])
    assert reply(Action(99, 1)) == wire.actions_bytes([Action(99, 1)])
    assert reply(ValueError("no idea")) == wire.FAULT + b"ValueError: no idea"


def test_a_server_needs_the_graphs_once() -> None:
    """The first request must bring them."""
    tables, _ = rehearsal()
    data = wire.request_bytes(tables.state, [], with_graphs=False)
    found = Server(lambda _: Scripted()).answer(data)
    assert found.startswith(wire.FAULT)
    assert b"must bring" in found


# --- the process ---------------------------------------------------------------------------------


def in_this_process(live: LiveJobs) -> list[tuple[object, ...]]:
    """What a planner with the same model in a thread would plan, twice."""
    policy_for = learned("decima")
    planner = Planner(policy_for, PATIENT)
    plans = [planner.plan(live), planner.plan(live)]
    planner.close()
    return [(plan.chosen, plan.limits, plan.fault) for plan in plans if plan is not None]


def pid_of(process: PolicyProcess) -> int:
    assert process.pid is not None
    return process.pid


def is_alive(pid: int) -> bool:
    """A zombie that nobody waits for is not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_the_life_of_a_process() -> None:
    """It starts, decides as the same model does in this process, hangs, dies, and is replaced.

    One test, since a process takes seconds to start.
    """
    own = PolicyProcess("decima")
    own.start()
    planner = Planner(own, PATIENT)
    os.kill(pid_of(own), signal.SIGSTOP)  # it does not get ready while we look
    assert told(planner) == ("strict_fair", None)
    assert (planner.is_ready, planner.failures) == (False, 0)
    os.kill(pid_of(own), signal.SIGCONT)
    assert own.is_ready(READY_S)

    live = session(9, 30, 3)
    plans = [planner.plan(live), planner.plan(live)]
    assert [plan.by for plan in plans if plan is not None] == ["decima", "decima"]
    found = [(plan.chosen, plan.limits, plan.fault) for plan in plans if plan is not None]
    assert found == in_this_process(live)

    hangs = pid_of(own)
    os.kill(hangs, signal.SIGSTOP)
    planner._guard = Guard(decision_s=0.5)
    assert told(planner) == ("strict_fair", "no answer in time")
    assert not is_alive(hangs)
    assert (own.starts, planner.is_ready, planner.failures) == (2, False, 1)
    assert told(planner) == ("strict_fair", None)

    dies = pid_of(own)
    os.kill(dies, signal.SIGKILL)
    while is_alive(dies):
        time.sleep(0.01)
    assert told(planner) == ("strict_fair", "its process ended (exit code -9)")
    assert (own.starts, planner.failures, planner.failures_in_a_row) == (3, 2, 2)
    last = pid_of(own)
    planner.close()
    assert not is_alive(last)


@pytest.mark.parametrize("answer", [wire.ACTIONS + b"half an action", b"?", b""])
def test_an_answer_that_is_none_replaces_the_process(
    answer: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a fault of the policy, not as an error of the program."""
    own = PolicyProcess("decima")
    ours, theirs = socket.socketpair()
    monkeypatch.setattr(own, "_end", ours)
    monkeypatch.setattr(own, "_start", lambda: None)
    wire.send(theirs, answer)
    with pytest.raises(PolicyFaultError, match="its process answered"):
        own.decide(rehearsal()[0].state, [], time.monotonic() + 5.0)
    theirs.close()


def told(planner: Planner) -> tuple[str, str | None]:
    """Who made the next plan, and why not the policy."""
    plan = planner.plan(session(9, 9))
    assert plan is not None
    return plan.by, plan.fault


def test_the_driver_needs_no_torch_and_takes_its_process_along() -> None:
    """What `attach` makes decides without torch in the driver, whose kill -9 ends both."""
    code = """
import sys, time
import tests.test_policy_process as t
from decima.spark import attaching
from decima.spark.planning import Planner

assert attaching.trained_slots_of("decima") is not None
policy, _ = attaching.policy_for("decima")
planner = Planner(policy, t.PATIENT)
attaching.prepare(planner, "decima", t.READY_S)
plan = planner.plan(t.session(9, 30, 3))
print(plan.by, plan.fault, "torch" in sys.modules, policy.pid, flush=True)
time.sleep(3600)
"""
    driver = subprocess.Popen(  # noqa: S603 - our own code
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True
    )
    assert driver.stdout is not None
    by, fault, has_torch, pid = driver.stdout.readline().split()
    assert (by, fault, has_torch) == ("decima", "None", "False")
    assert is_alive(int(pid))
    driver.kill()
    driver.wait()
    driver.stdout.close()
    ends = time.monotonic() + 30
    while is_alive(int(pid)) and time.monotonic() < ends:
        time.sleep(0.05)
    assert not is_alive(int(pid))


def test_a_model_that_cannot_be_used_ends_it(tmp_path: Path) -> None:
    """Its header is a model's, its weights are not: no second process is started."""
    from decima.agent.model import load_model, save_model
    from decima.policy_names import model_path

    model = load_model(model_path("decima"))
    weights = {name: value * float("nan") for name, value in model.network.state_dict().items()}
    path = tmp_path / "broken.safetensors"
    save_model(path, model.network.config, weights, model.card)
    assert trained_slots(read_card(path)) == trained_slots(model.card)
    own = PolicyProcess(str(path))
    own.start()
    with pytest.raises(PolicyFaultError, match="not all finite"):
        own.is_ready(READY_S)
    assert own.refused is not None
    assert own.starts == 1
    own.close()


# --- what the driver checks ----------------------------------------------------------------------


def test_actions_are_checked_where_they_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver plays them on its own tables: what the rules forbid is a fault."""
    planner = Planner(PolicyProcess("decima"), Guard())
    for actions, fault in (
        ([Action(0, 99)], "limit 99"),
        ([Action(7, 1)], "stage 7"),
        ([Action(0, 1)], "left the round open"),
    ):
        monkeypatch.setattr(PolicyProcess, "is_ready", lambda self: True)
        monkeypatch.setattr(PolicyProcess, "decide", lambda *_, found=actions: found)
        plan = planner.plan(session(9, 9))
        assert plan is not None
        assert plan.by == "strict_fair"
        assert fault in str(plan.fault)
    planner.close()


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


def test_a_round_on_what_was_sent_is_the_same_round() -> None:
    """Observation by observation, so that both ends know the same."""
    tables, mine = rehearsal()
    sent = wire.read_request(wire.request_bytes(tables.state, [], with_graphs=True))
    server = Server(lambda _: Scripted())
    state, _ = server._fill(sent)
    theirs = Round(state)
    for action in (Action(2, 2), Action(0, 2)):
        assert mine.observation().stages.tobytes() == theirs.observation().stages.tobytes()
        assert mine.observation().jobs.tobytes() == theirs.observation().jobs.tobytes()
        mine.assign(action)
        theirs.assign(action)
    assert mine.chosen() == theirs.chosen()
    with pytest.raises(IllegalActionError):
        theirs.assign(Action(99, 1))


def parts_of(data: bytes) -> dict[str, Any]:
    return dict(safetensors.numpy.load(data))


def damaged(name: str, value: Any) -> bytes:
    """A request with another part `name`; without it where the value is None."""
    tables, _ = rehearsal()
    parts = parts_of(wire.request_bytes(tables.state, [], with_graphs=True))
    if value is None:
        del parts[name]
    else:
        parts[name] = value
    found: bytes = safetensors.numpy.save(parts)
    return found


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "not a request for a plan: SafetensorError"),
        (b"\xff" * 40, "not a request for a plan: SafetensorError"),
        (safetensors.numpy.save({}), "not a request for a plan: KeyError: 'clock'"),
        (damaged("given", None), "KeyError: 'given'"),
        (damaged("given", np.zeros(3)), "actions are float64 of shape (3,)"),
        (damaged("jobs", np.zeros(5, np.uint8)), "not a request for a plan: ValueError"),
        (damaged("jobs", np.zeros(0, np.uint8)), "0 arrival times for 2 jobs"),
        (damaged("clock", np.zeros(0, np.uint8)), "there must be one clock"),
        (damaged("graph.first_stage", None), "KeyError: 'graph.first_stage'"),
        (damaged("graph.first_stage", np.zeros(2)), "first_stage is float64"),
        (damaged("graph.first_stage", np.array([0, 99], np.int32)), "first_stage does not lead"),
        (damaged("graph.children", np.array([77], np.int32)), "a child is no stage"),
        (damaged("graph.mean_ms", np.zeros(1)), "mean_ms has 1 rows"),
        (damaged("graph.samples_ms", np.zeros(0, np.float32)), "waves lie outside"),
    ],
)
def test_a_damaged_request_is_answered_in_one_line(data: bytes, words: str) -> None:
    """The process goes on: the next request is served."""
    tables, _ = rehearsal()
    server = Server(lambda _: Scripted(Action(2, 2), Action(0, 2)))
    answer = server.answer(data)
    assert answer.startswith(wire.FAULT)
    assert words in answer.decode()
    assert "\n" not in answer.decode()
    good = wire.request_bytes(tables.state, [], with_graphs=True)
    assert server.answer(good) == wire.actions_bytes([Action(2, 2), Action(0, 2)])


def test_a_child_beyond_its_job_is_refused() -> None:
    """Machine code would follow it out of its array."""
    tables, _ = rehearsal()
    parts = parts_of(wire.request_bytes(tables.state, [], with_graphs=True))
    children = parts["graph.children"].copy()
    children[0] = 1_000_000
    with pytest.raises(wire.WireError, match="a child is no stage of its job"):
        wire.read_request(damaged("graph.children", children))


def test_a_frame_too_long_ends_the_process_in_one_line() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(b"\xff\xff\xff\xff")
        serve(theirs, lambda _: Scripted())
        assert wire.receive(ours) == wire.READY
        assert wire.receive(ours) == wire.FAULT + b"a frame of 4294967295 bytes; at most 1073741824"


@pytest.mark.parametrize(
    "text", ["", "[]", "{", "{}", "9" * 5000, '{"sets": 3}', '{"time_ms": NaN}', "[" * 10**5]
)
def test_a_damaged_report_of_the_jvm_is_one_kind_of_error(text: str) -> None:
    with pytest.raises(ReportError, match=r"^report of the JVM.*$"):
        read_report(text)
