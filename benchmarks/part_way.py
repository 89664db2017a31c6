"""Write a network part of the way from one network to another.

    python -m benchmarks.part_way 0.6 OUT.safetensors decima STAGE_1.safetensors STAGE_2.safetensors

A step of evolution is part direction and part noise; part of a long way has most of what was
gained, and little of the noise (docs/results/2026-11-evolve.md). The way leads from the first model
to the last, which was trained through those between. The card is the last model's, with the
settings of all.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch

from decima.agent.model import load_model, save_model
from decima.policy_names import model_path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("part", type=float, help="0: the first model, 1: the last")
    parser.add_argument("out", type=Path)
    parser.add_argument("models", nargs="+", help="a file, or decima")
    arguments = parser.parse_args()
    models = [load_model(model_path(name)) for name in arguments.models]
    first, last = models[0].weights.arrays, models[-1].weights.arrays
    weights = {
        name: torch.from_numpy(
            (first[name] + arguments.part * (end.astype(float) - first[name])).astype(np.float32)
        )
        for name, end in last.items()
    }
    card = dict(models[-1].card)
    cards = [model.card for model in models]
    settings = [setting for card in cards for setting in card["config"]["workload"]["settings"]]
    distinct = [setting for at, setting in enumerate(settings) if setting not in settings[:at]]
    config = card["config"]
    card["config"] = {
        **config,
        "initial_model": "the network before",
        "workload": {**config["workload"], "settings": distinct},
    }
    card["trace"] = ", ".join(sorted({str(setting["trace"]) for setting in distinct}))
    card["part_of_the_way"] = arguments.part
    card["environment"] = [entry for each in cards for entry in each["environment"]]
    save_model(arguments.out, models[-1].weights.config, weights, card)


if __name__ == "__main__":
    main()
