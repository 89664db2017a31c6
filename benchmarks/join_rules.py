"""Join files of `decima fit-rule`, one for a world each, to the weights of `es_rules`.

    for world in batch session_stream session_batch; do
      decima fit-rule --settings docs/examples/worlds/$world.toml --start shipped --sigma 0.12 \
          --sequences 2 --validation 6 --minutes 45 -o fits/$world.json
    done
    python -m benchmarks.join_rules fits -o decima/data/es_rules.json

The shipped session_stream was fitted with one sequence of each setting; the file says for how long
each was. A world without a file gets the weights of `es_rule`. So does `stream`, where a fit was no
better on other sequences (docs/es-rule.md).
"""

from __future__ import annotations

import argparse
from pathlib import Path

from decima.heuristics.es_rule import WORLDS
from decima.policies import HEURISTICS
from decima.tuning import parameters_json, read_tuned
from files.reading import read_json
from files.writing import write_json


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "folder", type=Path, help="holds WORLD.json for worlds with a fit of their own"
    )
    parser.add_argument("-o", "--output", type=Path, required=True)
    arguments = parser.parse_args()
    joined: dict[str, float] = {}
    training: dict[str, object] = {}
    for world in WORLDS:
        path = arguments.folder / f"{world}.json"
        if not path.exists():
            own = HEURISTICS["es_rule"].defaults
            joined |= {f"{world}_{name}": value for name, value in own.items()}
            continue
        _, weights = read_tuned(path)
        joined |= {f"{world}_{name}": value for name, value in weights.items()}
        content = read_json(path)
        training[world] = {**content["training"], "settings": content["config"]["settings"]}
    write_json(
        arguments.output, {**parameters_json("es_rules", joined), "training": training}, indent=1
    )


if __name__ == "__main__":
    main()
