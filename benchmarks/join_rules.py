"""Join files of `decima fit-rule`, one for a world each, to the weights of `es_rules`.

    world=session_stream_few
    decima fit-rule --settings docs/examples/worlds/$world.toml --start $world --sigma 0.1 \
        --sequences 1 --validation 8 --minutes 20 -o fits/$world.json
    python -m benchmarks.join_rules fits -o decima/data/es_rules.json

A world such as session_stream_few without a file of its own gets the weights in
session_stream.json, for any number of slots, and if that is not there either, those of `es_rule`.
The output says to which settings and for how long each was fitted.
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
        kind = world.rpartition("_")[0]
        path = arguments.folder / f"{world}.json"
        if not path.exists():
            path = arguments.folder / f"{kind}.json"
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
