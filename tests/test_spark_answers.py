"""What Python answers to the planner in the JVM: plans of its policies, and why there is none."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import decima.spark
from decima.agent.model import ModelError, load_model, save_model
from decima.heuristics.run import decide
from decima.policy_names import model_path
from decima.registry import Heuristic
from decima.spark import AttachError, AutoSettings, Guard, Scheduler, answering, attaching
from decima.spark.answering import Answers, PoliciesByName
from decima.spark.attaching import Guest
from decima.spark.auto import Auto, Choice, EvaluatorError, EvaluatorProcess, News, Question
from decima.spark.loading import TWO_JOBS, PolicyFor, learned
from spark_sim import PASS, Action, Observation, Protocol
from spark_sim.observation import read_only
from spark_sim.rounds import Round, session_tables
from tests.spark_work import Faulty, several, spark_objects, until
from tests.stories import job, stage
from traces import Trace, to_arrays
from traces.loopback import ADDRESS

QUESTION = {"ask": "plan", "policy": "mine", **TWO_JOBS}


def answers(policy: Any) -> Answers:
    guest = Guest(policy)
    return Answers(PoliciesByName({"mine": lambda _trace: guest}))


class First:
    """The first open stage, with all slots; it keeps what it has seen."""

    name = "first"

    def __init__(self) -> None:
        self.seen: list[Observation] = []

    def decide(self, seen: Observation) -> Action:
        self.seen.append(seen)
        return Action(int(seen.open_stages()[0]), seen.num_executors)


# --- plans ---------------------------------------------------------------------------------------


def test_a_plan_is_what_the_policy_does_until_nothing_is_left() -> None:
    """The first job has both of its tasks; the other one gets the two slots that are left."""
    assert answers(First()).answer(QUESTION) == {"actions": [[0, 4], [2, 4]]}
    assert answers(Faulty(lambda: PASS)).answer(QUESTION) == {"actions": [[-1, 0]]}


def test_what_is_given_already_is_not_given_again() -> None:
    """A job that has waited too long was served before the policy is asked."""
    answer = answers(First()).answer({**QUESTION, "given": [[2, 1]]})
    assert answer == {"actions": [[0, 4]]}


def test_a_policy_sees_the_session_as_it_is_told() -> None:
    policy = First()
    answers(policy).answer({**QUESTION, "mean_gap_ms": None, "time_ms": 70.0})
    seen = policy.seen[0]
    assert (seen.time_ms, seen.num_executors, seen.mean_gap_ms) == (70.0, 4, float("inf"))
    assert seen.stages["num_tasks"].tolist() == [2, 2, 2]
    assert seen.stages["critical_path_ms"].tolist() == [2_000.0, 1_000.0, 1_000.0]
    assert seen.jobs["remaining_ms"].tolist() == [3_000.0, 2_000.0]


@pytest.mark.parametrize(
    ("fail", "fault"),
    [
        (lambda: 1 // 0, "ZeroDivisionError: integer division"),
        (lambda: sys.exit(3), "SystemExit: 3"),
        (lambda: Action(99, 1), "illegal action Action"),
        (lambda: Action(0, 9), "illegal action Action"),
        (lambda: "both", "illegal action 'both'"),
        (lambda: None, "illegal action None"),
    ],
)
def test_a_fault_is_told_and_the_next_question_is_answered(fail: Any, fault: str) -> None:
    own = answers(Faulty(fail))
    for _ in range(2):
        assert str(own.answer(QUESTION)["fault"]).startswith(fault)


def test_a_policy_is_made_anew_when_jobs_or_stages_have_changed() -> None:
    """Counts alone change nothing: what it remembers of the graphs still holds."""
    made = []

    def policy_for(trace: Any) -> Guest:
        made.append(trace)
        return Guest(First())

    own = Answers(PoliciesByName({"mine": policy_for}))
    for changed in ({}, {"launched": [2, 0, 0], "finished": [1, 0, 0]}, {"arrival_ms": [0.0, 5.0]}):
        own.answer({**QUESTION, **changed})
    assert len(made) == 2


# --- policies of other authors -------------------------------------------------------------------


def observation() -> Observation:
    """Two jobs of nine tasks each on twelve slots."""
    trace = Trace("two", tuple(job(name, stage("s", 9, 1_000)) for name in "ab"))
    return Round(session_tables(to_arrays(trace), 12, np.array([0.0, 5.0]))).observation()


class Writes:
    name = "writes"

    def decide(self, seen: Observation) -> Action:
        seen.jobs["held"][:] = 0
        return PASS


def test_a_policy_of_others_cannot_write() -> None:
    """It fails for it, and nothing has changed; one that asks ours gets the same answers."""
    with pytest.raises(ValueError, match="read-only"):
        Guest(Writes()).decide(observation())
    rule = Heuristic("strict_fair")
    assert Guest(rule).decide(observation()) == rule.decide(observation())


def test_other_types_of_numbers_and_tables_are_converted() -> None:
    """An observation made by hand has them, or read-only views: compiling kernels anew would take
    seconds, inside a decision.
    """
    rule = Heuristic("strict_fair")
    plain = observation()
    twice = np.repeat(plain.jobs, 2)
    other = plain._replace(
        protocol=Protocol(plain.protocol),
        time_ms=np.float32(plain.time_ms),  # type: ignore[arg-type]
        num_executors=np.int32(plain.num_executors),  # type: ignore[arg-type]
        active=plain.active.astype(np.int64),
        jobs=twice[::2],
    )
    expected = rule.decide(plain)
    compiled = len(decide.outer.signatures)  # type: ignore[attr-defined]
    assert [rule.decide(seen) for seen in (other, read_only(plain))] == [expected] * 2
    assert len(decide.outer.signatures) == compiled  # type: ignore[attr-defined]


# --- loading -------------------------------------------------------------------------------------


def test_a_model_that_was_trained_again_is_read_again(tmp_path: Path) -> None:
    """Its file has the same name, and the driver lives on."""
    model, path = load_model(model_path("decima")), tmp_path / "model.safetensors"
    answers = []
    for factor in (1.0, 0.0):
        state = {name: value * factor for name, value in model.network.state_dict().items()}
        save_model(path, model.network.config, state, model.card)
        answers.append(Answers(PoliciesByName({"mine": learned(str(path))})).answer(QUESTION))
    assert answers[0] != answers[1]


def test_a_policy_that_is_chosen_later_is_loaded_beside_the_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is asked once it is ready; what cannot be loaded is one line."""
    may_load = threading.Event()

    def late(name: str) -> PolicyFor:
        may_load.wait(60)
        if name == "bad":
            raise ModelError("its weights")
        return lambda _trace: Guest(First())

    monkeypatch.setattr(answering, "ready_policy", late)
    policies = PoliciesByName()
    assert not policies.is_ready("good")
    assert not policies.is_ready("bad")
    may_load.set()
    assert until(lambda: policies.is_ready("good"))
    assert policies["good"] is not None
    with pytest.raises(ModelError, match="its weights"):
        until(lambda: policies.is_ready("bad"))


# --- messages, and the process that simulates ----------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "error"),
    [
        (b"", None),
        ((5).to_bytes(4) + b"ab", None),
        (b"\xff\xff\xff\xff", "4294967295 bytes"),
        ((2).to_bytes(4) + b"[]", "no JSON object"),
    ],
    ids=["nothing", "half a message", "too long", "a list"],
)
def test_messages_arrive_whole_or_not_at_all(sent: bytes, error: str | None) -> None:
    """Half a message is none: the other end is gone."""
    settings = json.dumps({"text": "x" * 70_000}).encode()
    with socket.create_server((ADDRESS, 0)) as server:

        def plugin() -> None:
            end, _ = server.accept()
            with end:
                end.sendall(len(settings).to_bytes(4) + settings + sent)

        thread = threading.Thread(target=plugin)
        thread.start()
        connection = answering.Connection(server.getsockname()[1], "secret")
        thread.join()
    assert connection.settings == json.loads(settings)
    with pytest.raises(AttachError, match=error) if error else nullcontext():
        connection.serve(answers(First()))
    connection.close()
    connection.close()


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


# --- policy "auto" on a real Spark ---------------------------------------------------------------


class Scripted(Auto):
    """Chooses what a test says; simulates nothing."""

    def __init__(self) -> None:
        super().__init__(AutoSettings(), "fifo", None, EvaluatorProcess())
        self.told: list[News] = []

    def look(self, news: News, now_s: float | None = None) -> tuple[dict[str, Any], bool]:
        self.told.append(news)
        if news.given_up is not None:
            self.give_up(news.given_up, news.time_ms)
        return self.message(), False


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Scripted:
    chooser = Scripted()
    monkeypatch.setattr(attaching, "Auto", lambda *_, **__: chooser)
    return chooser


def in_force(scheduler: Scheduler, name: str, *, in_shadow: bool = False) -> bool:
    choice = scheduler.status().choice
    return choice is not None and choice[:2] == (name, in_shadow)


def is_given_up(auto: Auto, name: str) -> bool:
    return auto.choice.why.startswith(f"{name}: ")


def plans_of(scheduler: Scheduler, session: Any) -> int:
    before = scheduler.status().plans
    several(session, jobs=2, tasks=12)
    return scheduler.status().plans - before


@pytest.mark.slow
@pytest.mark.real_spark
def test_a_choice_begins_ends_and_goes_into_shadow(
    session: Any, scripted: Scripted, tmp_path: Path
) -> None:
    """A policy that is neither in force nor in shadow makes no plans."""
    log = tmp_path / "log.jsonl"
    with decima.spark.attach(session, "auto", decision_log=log) as scheduler:
        assert until(lambda: bool(scripted.told))
        assert in_force(scheduler, "fifo")
        assert plans_of(scheduler, session) == 0
        for name in ("tuned_srw", "sjf_cp"):  # inside the JVM, and in Python
            scripted.choice = Choice(name, False, "told to")
            assert until(partial(in_force, scheduler, name))
            assert until(lambda: not scripted.told[-1].is_left, 120)
            assert plans_of(scheduler, session) > 0
        scripted.choice = Choice("sjf_cp", True, "not believed")
        assert until(lambda: in_force(scheduler, "sjf_cp", in_shadow=True))
        assert until(lambda: scripted.told[-1].is_left)
        assert plans_of(scheduler, session) > 0
        scripted.choice = Choice("fifo", False, "enough")
        assert until(lambda: in_force(scheduler, "fifo"))
        assert plans_of(scheduler, session) == 0
        status = scheduler.status()
    assert (status.fallbacks, status.ended_because, status.jvm["faults"]) == (0, None, 0)
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    by = [(row["by"], row["in_force"]) for row in rows if "plan" in row]
    assert {choice for choice in by if choice[1]} == {("tuned_srw", True), ("sjf_cp", True)}
    assert {choice for choice in by if not choice[1]} == {("sjf_cp", False)}


@pytest.mark.slow
@pytest.mark.real_spark
def test_a_choice_that_fails_is_given_up(
    session: Any, scripted: Scripted, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """In its rounds, or because its file has gone: Spark's order returns, and Python hears why."""

    def no_idea() -> Action:
        raise ValueError("no idea")

    wrong = Guest(Faulty(no_idea))
    monkeypatch.setattr(answering, "ready_policy", lambda _name: lambda _trace: wrong)
    gone = str(tmp_path / "gone.safetensors")
    cases = {"sjf_cp": "the policy failed 2 times in a row", gone: "no such file"}
    with decima.spark.attach(session, "auto", guard=Guard(failures=2)) as scheduler:
        for name, reason in cases.items():
            scripted.choice = Choice(name, False, "told to")
            several(session, jobs=3, tasks=12)
            assert until(lambda: in_force(scheduler, "fifo"))
            assert until(partial(is_given_up, scripted, name))
            assert reason in scripted.choice.why
        assert plans_of(scheduler, session) == 0
        status = scheduler.status()
    assert status.is_attached
    assert "no idea" in str(status.last_fault)


# --- what is left behind -------------------------------------------------------------------------


def jvm_threads(session: Any) -> list[str]:
    threads = session._jvm.java.lang.Thread.getAllStackTraces().keySet()
    names = (str(thread.getName()) for thread in threads)
    return sorted(name for name in names if name.startswith("decima"))


@pytest.mark.slow
@pytest.mark.real_spark
def test_a_policy_that_cannot_be_loaded_detaches(
    session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Strict fair decides until then; Spark gets its own objects back, and the status says why."""
    may_load = threading.Event()

    def broken(name: str, _parameters: object = None) -> PolicyFor:
        may_load.wait(60)
        raise MemoryError(name)

    monkeypatch.setattr(attaching, "ready_policy", broken)
    before = spark_objects(session)
    with decima.spark.attach(session, "sjf_cp") as scheduler:
        several(session, jobs=2, tasks=12)
        status = scheduler.status()
        assert (status.is_ready, status.fallbacks, status.ended_because) == (False, 0, None)
        assert status.plans > 0
        may_load.set()
        assert until(lambda: spark_objects(session) == before)
        assert scheduler.status().ended_because == "MemoryError: sjf_cp"
    assert until(lambda: jvm_threads(session) == [])


@pytest.mark.slow
@pytest.mark.real_spark
def test_a_policy_is_waited_for_or_not_attached(
    session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ready means that the JVM can ask it; what is not ready in time leaves no thread."""
    with decima.spark.attach(session, "sjf_cp", ready_s=120) as scheduler:
        assert scheduler.status().is_ready
    may_load = threading.Event()
    monkeypatch.setattr(attaching, "ready_policy", lambda *_: may_load.wait(60))
    threads = set(threading.enumerate())
    with pytest.raises(AttachError, match=r"sjf_cp: not ready after 0.01 s"):
        decima.spark.attach(session, "sjf_cp", ready_s=0.01)
    assert until(lambda: jvm_threads(session) == [])
    may_load.set()
    assert until(lambda: set(threading.enumerate()) <= threads)


@pytest.mark.slow
@pytest.mark.real_spark
@pytest.mark.parametrize("name", ["spark", "auto", "strict_fair"])
def test_a_policy_may_have_any_name(session: Any, name: str) -> None:
    """It is an object: no policy of ours decides in its place."""
    policy = First()
    policy.name = name
    with decima.spark.attach(session, policy, ready_s=60) as scheduler:
        several(session, jobs=2, tasks=12)
        status = scheduler.status()
    assert policy.seen
    assert (status.policy, status.choice, status.fallbacks) == (name, None, 0)


@pytest.mark.slow
@pytest.mark.real_spark
def test_nothing_of_auto_outlives_it(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither what simulates, nor a connection; an error of ours there detaches."""
    made = list[Scripted]()

    class Fails(Scripted):
        fails, is_closed = False, False

        def look(self, news: News, now_s: float | None = None) -> tuple[dict[str, Any], bool]:
            if self.fails:
                raise RuntimeError("a fault of ours")
            return super().look(news, now_s)

        def close(self) -> None:
            self.is_closed = True
            super().close()

    def auto(*_: object, **__: object) -> Scripted:
        made.append(Fails())
        return made[-1]

    monkeypatch.setattr(attaching, "Auto", auto)
    before = spark_objects(session)
    with decima.spark.attach(session, "auto") as scheduler:
        assert until(lambda: bool(made and made[0].told))
        made[0].fails = True  # type: ignore[attr-defined]
        assert until(lambda: spark_objects(session) == before)
        assert scheduler.status().ended_because == "the Python that decides is gone"
    with decima.spark.attach(session, "auto"):
        assert until(lambda: bool(len(made) == 2 and made[1].told))
    assert until(lambda: all(one.is_closed for one in made))  # type: ignore[attr-defined]
    assert until(lambda: jvm_threads(session) == [])
