"""Settings of the shipped model's training: those of a recipe, and random worlds between them.

    python -m benchmarks.training_worlds docs/examples/decima-training.toml > runs/worlds.toml

The worlds are drawn like those of `benchmarks.worlds`, from traces that these never use: numbers
300 to 459 with executors that move, 460 to 559 with the slots of a session, two in three
heavy-tailed. Beside them stand queries like TPC-H's on clusters of many sizes. Prints the recipe
with all settings in a drawn order, so that each iteration plays some of every kind.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np

SEED, WORLDS, SESSIONS, FIRST_TRACE = 88, 160, 100, 300
QUERIES = (
    ("tpch-like", "executors", (30, 50, 100)),
    ("tpch-like", "session", (16, 32, 64, 96)),
    ("tpch", "session", (24, 48, 64, 96, 128)),
)
_BLOCK = "[[workload.settings]]\n"
_USUAL_DELAY_S = 2.0


def world(number: int, rng: np.random.Generator, *, is_session: bool) -> str:
    """TOML of one random setting."""
    family = "any-heavy" if number % 3 else "any-dag"
    executors = round(float(np.exp(rng.uniform(np.log(8), np.log(150 if is_session else 300)))))
    load = float(rng.choice([0.4, 0.6, 0.8, 0.95, 1.1, 0.0]))
    # Slots of a session do not move.
    delay_s = _USUAL_DELAY_S if is_session else float(rng.choice([0.1, 0.5, 1, 2, 2, 2, 5]))
    batch = int(rng.choice([8, 20, 40]))
    protocol = 'protocol = "session"\n' if is_session else ""
    text = f'{_BLOCK}trace = "{family}-{FIRST_TRACE + number}"\n{protocol}executors = {executors}\n'
    text += f"load = {load}\njobs = 60\n" if load else f'arrivals = "batch"\njobs = {batch}\n'
    return text if delay_s == _USUAL_DELAY_S else f"{text}moving_delay_s = {delay_s}\n"


def queries() -> Iterator[str]:
    """TOML of queries with work inflation: `tpch-like` on all clusters, `tpch` in sessions."""
    for trace, protocol, sizes in QUERIES:
        for executors in sizes:
            where = f'{_BLOCK}trace = "{trace}"\nprotocol = "{protocol}"\nexecutors = {executors}\n'
            yield from (f"{where}load = {load}\njobs = 60\n" for load in (0.7, 0.9, 1.1))
            if trace == "tpch-like":
                yield f'{where}arrivals = "batch"\njobs = 20\n'


def with_worlds(recipe: str) -> str:
    """The recipe, with random worlds among its settings."""
    rng = np.random.default_rng(SEED)
    head, *blocks = recipe.split(_BLOCK)
    settings = [f"{_BLOCK}{block.rstrip()}\n" for block in blocks]
    settings += [world(n, rng, is_session=n >= WORLDS) for n in range(WORLDS + SESSIONS)]
    settings += queries()
    return head + "\n".join(settings[index] for index in rng.permutation(len(settings)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("recipe", type=Path)
    print(with_worlds(parser.parse_args().recipe.read_text()))


if __name__ == "__main__":
    main()
