"""The network inside the JVM decides as the compiled Python one does; its model files."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from decima.agent.model import save_model
from decima.agent.network import PolicyNetwork
from decima.agent.weights import NetworkConfig
from decima.policy_names import model_path
from decima.spark.loading import learned
from tests.jvm import Talk
from tests.live import Live
from tests.mirror import compared, disordered

pytestmark = pytest.mark.real_spark


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
