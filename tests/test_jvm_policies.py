"""Policies inside the JVM, and its network, decide as the compiled Python ones do, plan by plan."""

from __future__ import annotations

import json
import os
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from decima.agent.model import save_model
from decima.agent.network import PolicyNetwork
from decima.agent.weights import NetworkConfig
from decima.policy_names import IN_JVM, model_path
from decima.registry import Heuristic
from decima.spark import jar
from decima.spark.jar import find_javac
from decima.spark.loading import learned
from tests.jvm import Classes, Talk
from tests.live import Live, report, task_set
from tests.mirror import compared, disordered

pytestmark = pytest.mark.real_spark

BENCHMARKS = Path(__file__).parents[1] / "benchmarks" / "java_app"
FACTS = ("due", "plans", "faults", "starved", "chosen", "slots")
SESSIONS = {
    "fifo": (501, 546, 0, 0, 579, 13_300),
    "spark_fair": (974, 1_023, 4, 4, 3_883, 23_678),
    "strict_fair": (1_180, 1_218, 0, 0, 3_447, 24_488),
    "tuned_srw": (1_140, 1_186, 1, 3, 3_340, 30_925),
    "es_rule": (1_196, 1_256, 3, 3, 3_489, 28_299),
}
"""`FACTS` of a session in disorder, by policy: of two implementations that agreed on every plan"""


@pytest.mark.parametrize(("policy", "facts"), SESSIONS.items())
def test_plans_of_a_session_are_those_of_the_compiled_policy(
    jvm: Talk, policy: str, facts: tuple[int, ...]
) -> None:
    """Where slots stand idle, those of strict fair."""
    reports = disordered(list(SESSIONS).index(policy))
    live = Live(jvm, policy, starve_s=15, idle_s=4)
    counts = compared(live, Heuristic(policy).on, reports)
    assert tuple(counts[name] for name in FACTS) == facts


@pytest.mark.parametrize("policy", [*SESSIONS, "decima"])
@pytest.mark.parametrize(("slots", "gap_ms"), [(8, 30_000.0), (200, 0.0)])
def test_plans_on_other_clusters_are_those_of_the_compiled_policy(
    jvm: Talk, policy: str, slots: int, gap_ms: float
) -> None:
    """Few slots for jobs that come one by one, and many for jobs that came together."""
    policy_for = learned(policy) if policy == "decima" else Heuristic(policy).on
    counts = compared(Live(jvm, policy), policy_for, disordered(9, "tpch", slots, gap_ms))
    assert counts["plans"] > 100


def test_python_names_the_policies_of_the_jvm(jvm: Talk) -> None:
    """`attach` starts no Python for these."""
    assert tuple(jvm.ask({"policies": None})) == IN_JVM


def test_caps_are_kept_in_rounds_and_what_they_leave_goes_to_others(jvm: Talk) -> None:
    """Two jobs of a user with six slots for both, one with four for itself, and a free one."""
    caps = {"spark 0": {"ann": 6}, "spark 1": {"ann": 6}, "spark 2": {"own": 4}}
    sets = [task_set(number, 40, job=f"spark {number}") for number in range(4)]
    told = report(sets=sets, slots=20, caps=caps)
    fair = Live(jvm, "strict_fair").plan(told)
    assert fair["limits"] == {f"spark {number}": 5 for number in range(4)}
    # The first has taken all of the user's.
    assert Live(jvm, "fifo").plan(told)["chosen"] == [0, 2, 3]


def test_a_rule_of_other_features_is_refused(jvm: Talk, tmp_path: Path) -> None:
    path = tmp_path / "rule.json"
    path.write_text(json.dumps({"policy": "es_rule", "parameters": {"size_0": 1.0}}))
    reason = jvm.ask({"refused": "es_rule", "parameters": str(path)})
    assert reason.startswith(f"{path}: its features are not those")


# --- the jar -------------------------------------------------------------------------------------


def test_a_release_brings_its_jar(
    classes: Classes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `make wheel` has put into the package is found without a JDK; an older one is gone."""
    monkeypatch.setattr(jar, "_SHIPPED", tmp_path / "data")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "decima-spark-old.jar").touch()
    shipped = jar.ship_jar()
    assert jar.plugin_jar({}) == shipped
    assert [*shipped.parent.iterdir()] == [shipped]
    assert shipped.read_bytes() == classes.jar.read_bytes()


@pytest.mark.parametrize("name", [path.stem for path in sorted(BENCHMARKS.glob("*.java"))])
def test_a_program_of_the_benchmarks_compiles(name: str, classes: Classes, tmp_path: Path) -> None:
    """Nothing else in a test run uses these programs: a renamed method would go unnoticed."""
    command = [find_javac(os.environ), "-cp", classes.path, "-d", tmp_path]
    source = BENCHMARKS / f"{name}.java"
    subprocess.run([*map(str, command), str(source)], check=True)  # noqa: S603 - the JDK's compiler
    assert list(tmp_path.rglob(f"{name}.class"))


# --- the network and its model files --------------------------------------------------------------


@pytest.mark.parametrize("trace", ["tpch", "heavy-dag"])
def test_every_plan_is_that_of_the_compiled_network(jvm: Talk, trace: str) -> None:
    """On the tables of sessions in disorder: embeddings that are kept from plan to plan, units that
    are learned as jobs come and go, slots that stand idle.
    """
    counts = compared(Live(jvm, "decima", idle_s=4), learned("decima"), disordered(7, trace))
    assert counts["plans"] > 100
    assert counts["faults"] > 0


ABLATIONS = (
    {"two_level": False, "hidden": ()},
    {"messages": False},
    {"embeddings": False},
    {"path_columns": False, "embedding": 5, "hidden": (7, 9)},
    {"limit_head": False, "head_hidden": (6,)},
)


@pytest.mark.parametrize("ablation", ABLATIONS, ids="-".join)
def test_a_model_file_of_any_shape_decides(
    jvm: Talk, tmp_path: Path, ablation: dict[str, Any]
) -> None:
    """Other sizes, and the parts that an ablation leaves out; weights are drawn."""
    torch.manual_seed(3)
    config = NetworkConfig(**ablation)
    network = PolicyNetwork(config)
    for weights in network.parameters():
        torch.nn.init.normal_(weights, std=0.3)
    path = str(tmp_path / "model.safetensors")
    save_model(Path(path), config, network.state_dict(), {})
    counts = compared(Live(jvm, path), learned(path), disordered(5, "random-dag", 16, 2_000.0))
    assert counts["plans"] > 50


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


@pytest.mark.parametrize("name", ["absent", *FAULTS])
def test_what_is_no_model_is_refused_in_one_line(jvm: Talk, tmp_path: Path, name: str) -> None:
    path = tmp_path / "model.safetensors"
    reason = "no such file"
    if name in FAULTS:
        change, reason = FAULTS[name]
        path.write_bytes(change(model_path("decima").read_bytes()))
    refusal = jvm.ask({"refused": str(path)})
    assert refusal.startswith(f"{path}: ")
    assert reason in refusal
    assert "\n" not in refusal
