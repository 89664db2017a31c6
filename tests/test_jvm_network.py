"""The network inside the JVM scores and decides as the compiled Python one does."""

from __future__ import annotations

import json
import os
import struct
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from decima.agent.model import load_model, save_model
from decima.agent.network import PolicyNetwork
from decima.agent.policy import LearnedPolicy
from decima.agent.scales import Scales
from decima.agent.weights import Network, NetworkConfig
from decima.learned import load
from decima.policy_names import model_path
from decima.spark.jar import find_javac
from decima.spark.loading import learned
from spark_sim import Cluster, Observation, Protocol, Simulator, Status
from tests.jvm import Classes, Talk
from tests.live import Live
from tests.mirror import Mirror, compared, disordered
from tests.test_jvm_policies import tables_of
from traces import load_trace, to_arrays
from traces.arrays import TraceArrays
from traces.estimates import with_estimates

DECIDE = "decima.policy.Decide"
BENCHMARKS = Path(__file__).parents[1] / "benchmarks" / "java_app"
JOBS = 12
GAP = 1e-5
"""between logits"""


class Recorded(NamedTuple):
    """A round of a session, and what the compiled network makes of it."""

    tables: dict[str, Any]
    stage: list[float]
    end: float
    limit: list[list[float]]
    actions: list[list[int]]


def edges_of(seen: Observation, arrays: TraceArrays) -> dict[str, list[int]]:
    """The graphs of the jobs in the system; children as rows of all their stages."""
    first_child, children, row = [0], [], 0
    for job in seen.jobs[seen.active]:
        template, base = int(job["template"]), row
        for stage in range(arrays.first_stage[template], arrays.first_stage[template + 1]):
            own = arrays.children[arrays.first_child[stage] : arrays.first_child[stage + 1]]
            children += [base + int(child) for child in own]
            first_child.append(len(children))
            row += 1
    return {"first_child": first_child, "children": children}


class Setting(NamedTuple):
    """A session to record."""

    trace: str
    slots: int
    gap_ms: float
    """mean, between arrivals; 0: all come at once"""
    estimates: Any = "exact"


SETTINGS = (
    Setting("tpch", 8, 30_000.0),
    Setting("tpch", 50, 0.0, "none"),
    Setting("random-dag", 16, 4_000.0, "none"),
    Setting("heavy-dag", 40, 20_000.0, "noisy"),
)


def recorded(network: Network, setting: Setting, seed: int) -> Iterator[Recorded]:
    """The rounds of a session under the network."""
    trace = load_trace(setting.trace)
    rng = np.random.default_rng(seed)
    arrays = with_estimates(trace, to_arrays(trace), setting.estimates, rng)
    row = rng.choice(len(trace.jobs), JOBS).astype(np.int32)
    gaps = rng.exponential(setting.gap_ms, JOBS - 1) if setting.gap_ms else np.zeros(JOBS - 1)
    cluster = Cluster(num_executors=setting.slots, protocol=Protocol.SESSION)
    arrival_ms = np.concatenate([[0.0], np.cumsum(gaps)])
    simulator = Simulator(arrays, cluster, arrival_ms, row)
    scales = Scales.of(arrays)
    policy = LearnedPolicy(network, arrays, scales=scales)
    while simulator.status is Status.DECIDE:
        seen = simulator.observation()
        number = seen.round_number
        tables, place = tables_of(seen)
        tables |= edges_of(seen, arrays) | {"units": [scales.task_ms, scales.work_ms]}
        scored = policy.score(seen)
        scores, ends = scored.scores, scored.choices.limit_ptr[1:-1]
        record = Recorded(tables, scores.stage.tolist(), float(scores.end[0]),
                         [part.tolist() for part in np.split(scores.limit, ends)], [])  # fmt: skip
        while simulator.status is Status.DECIDE:
            seen = simulator.observation()
            if seen.round_number != number:
                break
            action = policy.decide(seen)
            record.actions.append([place.get(action.stage, -1), action.limit])
            simulator.step(action)
        yield record


def assert_same(recordings: list[Recorded], logits: list[Any], actions: list[Any]) -> None:
    """Logits to `GAP`, choices exactly."""
    for recording, (stage, end, limit) in zip(recordings, logits, strict=True):
        assert stage == pytest.approx(recording.stage, abs=GAP, rel=0)
        assert end == pytest.approx(recording.end, abs=GAP, rel=0)
        assert [len(part) for part in limit] == [len(part) for part in recording.limit]
        for told, part in zip(limit, recording.limit, strict=True):
            if len(part) > 1:  # the score of a job's only limit is of no use, and not computed
                assert told == pytest.approx(part, abs=GAP, rel=0)
    assert actions == [recording.actions for recording in recordings]


@pytest.fixture(scope="module")
def decide(classes: Classes) -> Iterator[Talk]:
    with classes.talk(DECIDE) as talk:
        yield talk


def asked(decide: Talk, policy: str, recordings: list[Recorded]) -> tuple[list[Any], list[Any]]:
    """The JVM's logits and actions."""
    question = {"policy": policy, "parameters": None}
    every = [question | {"tables": recording.tables} for recording in recordings]
    logits = [decide.ask(asking | {"logits": True}) for asking in every]
    return logits, [decide.ask(asking) for asking in every]


@pytest.mark.real_spark
@pytest.mark.parametrize("setting", SETTINGS, ids=lambda recording: "-".join(map(str, recording)))
def test_logits_and_choices_are_those_of_the_compiled_network(
    classes: Classes, setting: Setting
) -> None:
    """Streams and batches of several traces, durations known, roughly known and unknown."""
    recordings = list(recorded(load("decima"), setting, SETTINGS.index(setting)))
    # A policy remembers the jobs of its session.
    with classes.talk(DECIDE) as decide:
        assert_same(recordings, *asked(decide, "decima", recordings))
    assert len(recordings) > 50
    assert sum(len(recording.actions) for recording in recordings) > 100


@pytest.mark.real_spark
def test_every_plan_is_that_of_the_compiled_network(classes: Classes) -> None:
    """On the tables of sessions in disorder: embeddings that are kept from plan to plan, units that
    are learned as jobs come and go, slots that stand idle.
    """
    with classes.talk("decima.policy.DriveSession") as jvm:
        for trace in ("tpch", "heavy-dag"):
            live = Live(jvm, "decima", idle_s=4)
            counts = compared(live, Mirror(learned("decima")), disordered(7, trace))
            assert counts["plans"] > 100
            assert counts["faults"] > 0


# --- model files ---------------------------------------------------------------------------------

ABLATIONS = (
    {"two_level": False, "hidden": ()},
    {"messages": False},
    {"embeddings": False},
    {"path_columns": False, "embedding": 5, "hidden": (7, 9)},
    {"limit_head": False, "head_hidden": (6,)},
)


@pytest.mark.real_spark
@pytest.mark.parametrize("ablation", ABLATIONS, ids="-".join)
def test_a_model_file_of_any_shape_decides(
    decide: Talk, tmp_path: Path, ablation: dict[str, Any]
) -> None:
    """Other sizes, and the parts that an ablation leaves out; weights are drawn."""
    torch.manual_seed(3)
    config = NetworkConfig(**ablation)
    network = PolicyNetwork(config)
    for weights in network.parameters():
        torch.nn.init.normal_(weights, std=0.3)
    path = tmp_path / "model.safetensors"
    save_model(path, config, network.state_dict(), {})
    recordings = list(recorded(load_model(path).network, Setting("random-dag", 16, 2_000.0), 5))
    assert_same(recordings, *asked(decide, str(path), recordings))
    assert len(recordings) > 50


def changed(data: bytes, facts: dict[str, Any] | None, header: dict[str, Any]) -> bytes:
    """The shipped model with some of its header replaced."""
    length = int.from_bytes(data[:8], "little")
    content = json.loads(data[8 : 8 + length])
    if facts is not None:
        content["__metadata__"]["json"] = json.dumps(
            json.loads(content["__metadata__"]["json"]) | facts
        )
    text = json.dumps({k: v for k, v in (content | header).items() if v is not None}).encode()
    return struct.pack("<Q", len(text)) + text + data[8 + length :]


LAST = "value_head.parts.0.weight"
FAULTS: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "empty": (lambda data: b"", "damaged: it has 0 bytes"),
    "no model": (lambda data: b"{}" * 30, "damaged: its header is cut short"),
    "header cut": (lambda data: data[:2_000], "damaged: its header is cut short"),
    "numbers cut": (lambda data: data[:-4], f"damaged: {LAST} is cut short"),
    "bytes behind": (lambda data: data + b"0000", "where its header names"),
    "no JSON": (lambda data: data[:8] + b"[" + data[9:], "damaged: its header: no"),
    "features": (lambda data: changed(data, {"feature_version": 8}, {}), "feature version 8"),
    "version": (lambda data: changed(data, {"version": 2}, {}), "version 2, this reader knows 1"),
    "format": (lambda data: changed(data, {"format": "x"}, {}), "not a model of `decima train`"),
    "other sizes": (
        lambda data: changed(data, {"network": {"embedding": 8}}, {}), "do not fit the network"
    ),
    "giant": (
        lambda data: changed(data, {"network": {"hidden": [1 << 30]}}, {}), "impossible network"
    ),
    "unknown": (
        lambda data: changed(data, {"network": {"depth": 3}}, {}), "'depth' is unknown"
    ),
    "half": (
        lambda data: changed(data, None, {LAST: {"dtype": "F16", "shape": [64, 34],
                                                 "data_offsets": [124500, 133204]}}),
        "holds F16",
    ),
    "missing": (lambda data: changed(data[:-8704], None, {LAST: None}), f"'{LAST}' do not fit"),
    "shape": (
        lambda data: changed(data, None, {LAST: {"dtype": "F32", "shape": [1 << 30, 1 << 30],
                                                 "data_offsets": [124500, 133204]}}),
        "cut short",
    ),
    "infinite": (lambda data: data[:-4] + struct.pack("<f", np.inf), "are not all finite"),
}  # fmt: skip


@pytest.mark.real_spark
@pytest.mark.parametrize("name", ["absent", *FAULTS])
def test_what_is_no_model_is_refused_in_one_line(decide: Talk, tmp_path: Path, name: str) -> None:
    """It names the file, and what is wrong."""
    path = tmp_path / "model.safetensors"
    reason = "no such file"
    if name in FAULTS:
        change, reason = FAULTS[name]
        path.write_bytes(change(model_path("decima").read_bytes()))
    answer = decide.ask({"policy": str(path), "parameters": None, "tables": {}})
    assert answer["refused"].startswith(f"{path}: ")
    assert reason in answer["refused"]
    assert "\n" not in answer["refused"]


@pytest.mark.parametrize("name", [path.stem for path in sorted(BENCHMARKS.glob("*.java"))])
def test_a_program_of_the_benchmarks_compiles(name: str, classes: Classes, tmp_path: Path) -> None:
    """Nothing else in a test run uses these programs: a renamed method would go unnoticed."""
    command = [find_javac(os.environ), "-cp", classes.path, "-d", tmp_path]
    source = BENCHMARKS / f"{name}.java"
    subprocess.run([*map(str, command), str(source)], check=True)  # noqa: S603 - the JDK's compiler
    assert list(tmp_path.rglob(f"{name}.class"))
