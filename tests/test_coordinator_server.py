"""Drivers at the coordinator's socket: who has the secret, who is slow, who sends rubbish."""

from __future__ import annotations

import asyncio
import functools
import json
import ssl
import struct
import time
from collections.abc import Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from decima.spark.coordinator import messages, server
from decima.spark.coordinator.log import CoordinatorLog
from decima.spark.coordinator.server import CoordinatorServer
from decima.spark.coordinator.settings import CoordinatorSettings
from decima.spark.dashboard import content
from decima.spark.decision_log import DecisionLogFiles, read_decision_log
from decima.spark.loading import PolicyFor, ready_policy
from decima.spark.review import review, words
from decima.spark.settings import AttachError
from spark_sim import Action, Observation
from tests.applications import columns, registration
from tests.certificates import make_certificate, trusting
from tests.commands import decima, refused
from traces.files.private import read_secret
from traces.files.tls import tls_of

SECRET = b"0123456789abcdef"
PATIENCE_S = 20.0


class Driver:
    """A driver, as the plugin speaks."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.target: int | None = None

    @classmethod
    async def connect(cls, port: int) -> Driver:
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    def send(self, message: object) -> None:
        data = json.dumps(message).encode()
        self.writer.write(struct.pack(">I", len(data)) + data)

    async def receive(self) -> dict[str, Any] | None:
        try:
            (length,) = struct.unpack(">I", await self.reader.readexactly(4))
            message = json.loads(await self.reader.readexactly(length))
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        assert isinstance(message, dict)
        return message

    async def prove(self, secret: bytes = SECRET) -> bool:
        first = await self.receive()
        assert first is not None
        pair = first["nonce"], "mine"
        self.send({"nonce": "mine", "proof": messages.proof(secret, messages.DRIVER, *pair)})
        answer = await self.receive()
        expected = messages.proof(secret, messages.COORDINATOR, *pair)
        return answer is not None and answer["proof"] == expected

    async def wait_for_target(self, target: int) -> None:
        """Read until this target comes."""
        async with asyncio.timeout(PATIENCE_S):
            while self.target != target:
                message = await self.receive()
                assert message is not None, f"hung up before target {target}"
                self.target = message.get("target", self.target)


async def driver(port: int, key: str, **other: Any) -> Driver:
    made = await Driver.connect(port)
    assert await made.prove()
    made.send(registration(key, **other))
    return made


@asynccontextmanager
async def serving(
    log: CoordinatorLog | None = None,
    policy_for: PolicyFor | None = None,
    tls: ssl.SSLContext | None = None,
    **settings: Any,
) -> Any:
    """A server for eight executors, by default under strict fair, and its port."""
    policy_for = policy_for or ready_policy("strict_fair")
    made = CoordinatorServer(CoordinatorSettings(8, **settings), policy_for, SECRET, log)
    port = await made.start("127.0.0.1", 0, tls)
    try:
        yield made, port
    finally:
        made.close()


def story(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test in an event loop of its own, for a minute at most."""

    @functools.wraps(test)
    def run(*arguments: Any, **named: Any) -> None:
        asyncio.run(asyncio.wait_for(test(*arguments, **named), 60))

    return run


@story
async def test_targets_follow_reports_and_departures() -> None:
    async with serving(silence_s=30.0) as (_, port):
        first, second = await driver(port, "a"), await driver(port, "b")
        await first.wait_for_target(8)
        second.send({"stages": columns([20]), "registered": 0, "number": 0})
        await second.wait_for_target(8)
        first.send({"stages": columns([20]), "registered": 0, "number": 0})
        await first.wait_for_target(1)
        second.writer.transport.abort()
        await first.wait_for_target(8)


@story
async def test_a_driver_that_is_silent_frees_its_share() -> None:
    async with serving(silence_s=0.5) as (server, port):
        silent = await driver(port, "silent")
        await silent.wait_for_target(8)
        client = await driver(port, "a")

        async def beat() -> None:
            while True:
                client.send({"stages": columns([20]), "registered": 0, "number": 0})
                await asyncio.sleep(0.1)

        beating = asyncio.create_task(beat())
        await client.wait_for_target(8)
        while "silent" in server.coordinator.applications:
            await asyncio.sleep(0.05)
        beating.cancel()


@pytest.mark.parametrize("secret", [b"another secret here", b""])
@story
async def test_without_the_secret_nothing_is_learnt(secret: bytes) -> None:
    async with serving() as (server, port):
        stranger = await Driver.connect(port)
        first = await stranger.receive()
        assert first is not None
        assert set(first) == {"nonce"}
        wrong = messages.proof(secret, messages.DRIVER, first["nonce"], "mine")
        stranger.send({"nonce": "mine", "proof": wrong})
        assert await stranger.receive() is None
        assert server.coordinator.applications == {}


@pytest.mark.parametrize(
    "rubbish",
    [b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\2{}", b"\0\0\0\2[]", struct.pack(">I", 1025), b""],
)
@story
async def test_rubbish_and_slow_clients_keep_no_one_out(
    rubbish: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two hundred of them at once, more than may be unknown; each is hung up on."""
    monkeypatch.setattr(messages, "HELLO_S", 0.5)
    async with serving() as (_, port):
        strangers = [await Driver.connect(port) for _ in range(200)]
        for stranger in strangers:
            stranger.writer.write(rubbish)
        known = await driver(port, "a")
        await known.wait_for_target(8)
        for stranger in strangers:
            while await stranger.receive() is not None:
                pass


@pytest.mark.parametrize(
    "nonsense",
    [{"stages": 3, "registered": 0, "number": 0}, {"registered": -1}, [], "text",
     {"stages": {**columns([5]), "children": [9]}, "registered": 0, "number": 0}],
)  # fmt: skip
@story
async def test_a_driver_that_sends_nonsense_is_alone_cut_off(nonsense: object) -> None:
    async with serving(silence_s=30.0) as (_, port):
        broken, other = await driver(port, "broken"), await driver(port, "b")
        await broken.wait_for_target(8)
        broken.send(nonsense)
        other.send({"stages": columns([20]), "registered": 0, "number": 0})
        await other.wait_for_target(8)
        while await broken.receive() is not None:
            pass


@story
async def test_a_plan_that_fails_costs_its_round(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is counted, its reason is logged once, and targets come once plans succeed again."""
    async with serving(silence_s=30.0) as (server, port):

        def failing(_now_ms: float) -> None:
            raise OverflowError("cannot convert float infinity to integer")

        with monkeypatch.context() as patched:
            patched.setattr(server.coordinator, "plan", failing)
            client = await driver(port, "a")
            while server.failed_plans < 3:
                client.send({"stages": columns([20]), "registered": 0, "number": 0})
                await asyncio.sleep(0.02)
        await client.wait_for_target(8)
        assert f"decima_coordinator_failed_plans_total {server.failed_plans}" in server.metrics()
    errors = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert len(errors) == 1
    assert "OverflowError: cannot convert float infinity to integer" in errors[0]


@pytest.mark.parametrize("label", ["nonce", "proof"])
@story
async def test_a_proof_of_no_character_is_no_proof(
    label: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Half of a surrogate pair has no bytes; nothing is logged of who lacks the secret."""
    with caplog.at_level("INFO"):
        async with serving() as (_, port):
            stranger = await Driver.connect(port)
            assert await stranger.receive() is not None
            stranger.send({"nonce": "mine", "proof": "mine", label: "\ud800"})
            assert await stranger.receive() is None
    assert caplog.records == []


@story
async def test_drivers_that_come_back_keep_what_they_hold_until_all_had_time_to() -> None:
    """The first one is not given what the other, which is not back yet, holds."""
    async with serving(silence_s=30.0) as (_, port):
        drivers = []
        for key, held in (("a", 3), ("b", 5)):
            made = await driver(port, key, held=held)
            running = columns([20], [held], task_ms=1_000.0)
            made.send({"stages": running, "registered": held, "number": 7})
            drivers.append((made, held))
            await asyncio.sleep(0.7)  # the other comes back later
        for made, held in drivers:
            while made.target is None:
                message = await made.receive()
                assert message is not None
                made.target = message.get("target")
            assert made.target == held


class Slow:
    """A policy that takes too long."""

    name = "slow"

    def decide(self, _observation: Observation) -> Action:
        time.sleep(0.5)  # ten times as long as it may take
        raise RuntimeError("too late")


@story
async def test_a_policy_that_hangs_is_replaced() -> None:
    slow = serving(policy_for=lambda _trace: Slow(), decision_s=0.05, silence_s=30.0)
    async with slow as (server, port):
        client = await driver(port, "a")
        await client.wait_for_target(8)
        client.send({"stages": columns([3]), "registered": 8, "number": 0})
        while server.coordinator.failures == 0:
            await asyncio.sleep(0.02)
        assert (server.division.by, server.division.targets) == ("strict_fair", {"a": 8})
        assert "no decision within 0.05 s" in str(server.division.fault)


@story
async def test_the_log_can_be_reviewed_and_the_status_shown(tmp_path: Path) -> None:
    path = tmp_path / "day.jsonl"
    ended = {
        "job": "job 1", "name": "q5", "arrival_ms": 1_000_000, "completion_ms": 1_012_000,
        "own_ms": 100, "stages": [{"num_tasks": 8, "parents": [], "mean_ms": 10_000.0}],
    }  # fmt: skip
    log = CoordinatorLog(DecisionLogFiles(path), "strict_fair", {})
    async with serving(log=log, silence_s=30.0) as (server, port):
        client = await driver(port, "a", name="etl")
        client.send({"stages": columns([20]), "registered": 8, "number": 0})
        await client.wait_for_target(8)
        client.send({"stages": None, "registered": 8, "number": 1, "ended": [ended]})
        while server.coordinator.applications["a"].stages is not None:
            await asyncio.sleep(0.02)
        (job,) = content(server.status())["jobs"]
        assert (job["name"], job["held"], job["limit"]) == ("etl", 8, 8)
        assert 'decima_coordinator_granted{application="a"} 8' in server.metrics()
    assert path.stat().st_mode & 0o777 == 0o600
    decisions = read_decision_log(path)
    assert [job.key for job in decisions.jobs] == ["a job 1"]
    verdict = review(decisions, ("strict_fair",))
    # Eight tasks of 10 s on eight executors, which take 2 s to start; 0.1 s are Spark's own.
    assert verdict.simulated_s["strict_fair"].tolist() == [12.1]
    assert any("application of its own" in line for line in words(verdict))


def test_a_log_is_turned_when_it_is_full(tmp_path: Path) -> None:
    path = tmp_path / "day.jsonl"
    log = CoordinatorLog(DecisionLogFiles(path, max_bytes=600, files=2), "fifo", {})
    row = {"job": "j", "name": "n" * 200, "arrival_ms": 0, "completion_ms": 1, "stages": []}
    for _ in range(9):
        log.jobs("a", "app", [row])
    log.close()
    assert sorted(one.name for one in tmp_path.iterdir()) == ["day.jsonl", "day.jsonl.1"]
    assert all(
        json.loads(one.read_text().splitlines()[0])["policy"] == "fifo"
        for one in tmp_path.iterdir()
    )


@story
async def test_tls_handshakes_that_do_not_come_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the time of a proof, not a minute; and drivers are served over TLS."""
    certificate, key = make_certificate(tmp_path)
    monkeypatch.setattr(server, "HELLO_S", 0.3)
    async with serving(tls=tls_of("127.0.0.1", certificate, key)) as (_, port):
        idle = await Driver.connect(port)
        client = Driver(
            *await asyncio.open_connection("127.0.0.1", port, ssl=trusting(certificate))
        )
        assert await client.prove()
        client.send(registration("a"))
        await client.wait_for_target(8)
        async with asyncio.timeout(PATIENCE_S):
            assert await idle.receive() is None


# --- the command -------------------------------------------------------------------------------


@pytest.fixture
def secret_file(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_bytes(SECRET)
    path.chmod(0o600)
    return path


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--listen", "7087"], "HOST:PORT is needed"),
        (["--listen", "0.0.0.0:0"], "beyond loopback, --tls-certificate is needed"),
        (["--policy", "nope"], "unknown policy 'nope'"),
        (["--cap", "user"], "GROUP=VALUE is needed"),
        (["--weight", "queue:etl=x"], "no such number"),
    ],
)
def test_a_mistake_is_one_line(secret_file: Path, options: list[str], reason: str) -> None:
    refused(decima("coordinate", "--slots", 8, "--secret-file", secret_file, *options), reason)


def test_a_secret_that_others_may_read_is_refused(secret_file: Path) -> None:
    assert read_secret(secret_file, AttachError) == SECRET
    secret_file.chmod(0o644)
    with pytest.raises(AttachError, match="no other user may read"):
        read_secret(secret_file, AttachError)
    secret_file.chmod(0o600)
    secret_file.write_bytes(b"short")
    with pytest.raises(AttachError, match="16 bytes or more"):
        read_secret(secret_file, AttachError)
