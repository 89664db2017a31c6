"""Networks with random weights, heads included, for tests that need a policy and no training."""

from __future__ import annotations

from pathlib import Path

import torch

from decima.agent.model import save_model
from decima.agent.network import PolicyNetwork
from decima.agent.weights import NetworkConfig


def random_network(seed: int = 0, config: NetworkConfig | None = None) -> PolicyNetwork:
    """Return a network whose heads' last layers are drawn, so that its choices differ."""
    torch.manual_seed(seed)
    network = PolicyNetwork(NetworkConfig() if config is None else config)
    for module in network.modules():
        last = getattr(module, "last", None)
        if isinstance(last, torch.nn.Linear):
            torch.nn.init.normal_(last.weight, std=0.3)
    return network.eval()


def save_random_model(path: Path, seed: int = 0, config: NetworkConfig | None = None) -> Path:
    """Write such a network as a model file; returns the path."""
    network = random_network(seed, config)
    save_model(path, network.config, network.state_dict(), {"validation": {}})
    return path
