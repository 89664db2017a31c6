"""Put files of `decima fit-rule`, one for a world each, into the weights that ship.

    world=giants_stream
    decima fit-rule --settings docs/examples/worlds/$world.toml --world $world --sigma 0.1 \
        --sequences 1 --validation 8 --minutes 30 -o fits/$world.json
    python -m benchmarks.join_rules fits -o decima/data/es_rules.json

A world such as session_stream_few without a file of its own gets the weights in
session_stream.json, for any number of slots, and if that is not there either, keeps those it has.
The output says to which settings and for how long each was fitted.

    world=classes_batch  # or classes_stream
    decima fit-rule --settings docs/examples/worlds/$world.toml --start $world --sigma 0.06 \
        --sequences 1 --validation 4 --minutes 30 -o fits/$world.json
    python -m benchmarks.join_rules fits --policy es_classes -o decima/data/es_classes.json

`--policy es_makespan` takes fits/makespan.json, of classes_batch with `--objective makespan`.

Units 12 and 13 of `es_rules` are set here where a fit has left them at zero. They hold what fits to
`tpch` cannot show, since its work inflates and its tasks are short; there they change next to
nothing. So is unit 9 of giants_stream, which holds what fits had not found in 25 minutes.
`decima fit-rule --only unit_12` goes on from them.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import decima
from decima.heuristics.es_classes import CLASS_PARAMETERS, CLASS_WORLDS
from decima.heuristics.es_rule import ANY_SIZE, PARAMETERS, WORLDS
from decima.policies import HEURISTICS
from decima.tuning import parameters_json, read_tuned
from traces.files.reading import read_json
from traces.files.writing import write_json

_SHORTEST_FIRST = {"rank_13": -2.0, "inflation_13": -12.0, "score_13": 10.0}
"""where nothing inflates, jobs with less work left come first; else the unit is the same for all"""

_KEEP_SOME_FREE = {
    "cluster_12": 20.0,
    "blocking_12": 20.0,
    "bias_12": -26.4,
    "gate_12": -4.0,
    "gate_bias": -4.0,
}
"""a job gets no more than 0.8 N executors for tasks that block as long as `blocking` can tell"""

_GIVE_ALL_TO_LONG_TASKS = {
    "inflation_12": -6.0,
    "moving_12": -3.0,
    "bias_12": -3.9,
    "gate_12": 4.0,
    "gate_bias": 4.0,
}
"""where nothing inflates, and moving takes little beside the tasks, jobs get all they can use"""

_GIVE_ALL = {
    "inflation_12": -16.0,
    "bias_12": 1.0,
    "gate_12": 4.0,
    "gate_bias": 4.0,
    "rank_13": -1.0,
    "work_13": -0.5,
    "inflation_13": -24.0,
    "score_13": 20.0,
}
"""the same for slots, which do not move"""

_LEAVE_SOME_FREE = {
    "free_9": -30.0,
    "blocking_9": 30.0,
    "bias_9": -14.0,
    "gate_9": -3.0,
    "gate_bias": -3.0,
}
"""for tasks that block as long as `blocking` can tell no job gets the last tenth of the executors,
whoever holds the others; in place of a unit that fits had left next to nothing"""

SHIPPED = Path(decima.__file__).parent / "data" / "es_rules.json"
BY_HAND = (
    "units 12 and 13 of worlds with a size, unit 9 of giants_stream, and what they add to "
    "gate_bias (benchmarks/join_rules.py)"
)
"""what no fit has found"""

_UNITS: Mapping[str, Mapping[str, float]] = {
    "stream": {**_SHORTEST_FIRST, **_KEEP_SOME_FREE},
    "batch": {**_SHORTEST_FIRST, **_GIVE_ALL_TO_LONG_TASKS},
    "session_stream": _GIVE_ALL,
    "session_batch": _GIVE_ALL,
}
"""by kind of world: weights that are set, and what is added to the bias of the gate; the worlds of
any number of executors were fitted with what these do elsewhere"""


def with_units(kind: str, weights: Mapping[str, float]) -> dict[str, float]:
    """The weights with the units that are set by hand, unless a fit has changed these."""
    if kind == "giants_stream":
        return _leaving_some_free(weights)
    own = [name for name in PARAMETERS if name.endswith(("_12", "_13"))]
    if any(weights[name] != 0.0 for name in own):
        return dict(weights)
    changes = dict(_UNITS.get(kind, {}))
    gate_bias = weights["gate_bias"] + changes.pop("gate_bias", 0.0)
    return {**weights, **changes, "gate_bias": gate_bias}


def _leaving_some_free(weights: Mapping[str, float]) -> dict[str, float]:
    """Those for giants that keep coming: unit 9, if no fit has used `free` in it."""
    if weights["free_9"] != 0.0:
        return dict(weights)
    old = [name for name in PARAMETERS if name.endswith("_9")]
    changes = {**dict.fromkeys(old, 0.0), **_LEAVE_SOME_FREE}
    gate_bias = weights["gate_bias"] + changes.pop("gate_bias")
    return {**weights, **changes, "gate_bias": gate_bias}


class Joined(NamedTuple):
    """What is written."""

    parameters: dict[str, float]
    training: dict[str, object]
    """by file: how long, on which settings"""
    rest: dict[str, str]


def training_of(path: Path) -> dict[str, object]:
    """What a fit says of itself."""
    content = read_json(path)
    return {**content["training"], "settings": content["config"]["settings"]}


def fitted_weights(path: Path, world: str) -> Mapping[str, float]:
    """Of a world, from a file of `es_rule` or of `es_rules`."""
    policy, found = read_tuned(path)
    return found if policy == "es_rule" else of_world(found, world)


def of_world(weights: Mapping[str, float], world: str) -> Mapping[str, float]:
    """Those of a world among those of `es_rules`, by the names of `es_rule`."""
    return {name: weights[f"{world}_{name}"] for name in PARAMETERS}


def rules(folder: Path) -> Joined:
    """Of `es_rules`."""
    shipped = read_json(SHIPPED)
    joined = Joined(dict(shipped["parameters"]), dict(shipped["training"]), {"by_hand": BY_HAND})
    for world in WORLDS:
        kind = world if world in ANY_SIZE else world.rpartition("_")[0]
        path = folder / f"{world}.json"
        if not path.exists():
            path = folder / f"{kind}.json"
        if path.exists():
            weights = with_units(kind, fitted_weights(path, world))
            joined.parameters.update({f"{world}_{name}": value for name, value in weights.items()})
            joined.training[world] = training_of(path)
    return joined


def classes(folder: Path) -> Joined:
    """Of `es_classes`, as far as they are not those of `es_rules`."""
    joined = Joined(_class_numbers(), {}, {})
    for world in CLASS_WORLDS:
        weights = read_tuned(folder / f"{world}.json")[1]
        own = {f"{world}_{name}": weights[f"{world}_{name}"] for name in PARAMETERS}
        joined.parameters.update(own)
        joined.training[world] = training_of(folder / f"{world}.json")
    return joined


def makespan(folder: Path) -> Joined:
    """Of `es_makespan`, the same rule in all worlds."""
    path = folder / "makespan.json"
    weights = read_tuned(path)[1]
    own = {name: weights[f"{CLASS_WORLDS[0]}_{name}"] for name in PARAMETERS}
    return Joined({**_class_numbers(), **own}, {"makespan": training_of(path)}, {})


def _class_numbers() -> dict[str, float]:
    return {name: HEURISTICS["es_classes"].defaults[name] for name in CLASS_PARAMETERS}


JOINED: Mapping[str, Callable[[Path], Joined]] = {
    "es_rules": rules,
    "es_classes": classes,
    "es_makespan": makespan,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "folder", type=Path, help="holds WORLD.json for worlds with a fit of their own"
    )
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--policy", choices=JOINED, default="es_rules")
    arguments = parser.parse_args()
    joined = JOINED[arguments.policy](arguments.folder)
    content = parameters_json(arguments.policy, joined.parameters)
    write_json(arguments.output, {**content, "training": joined.training, **joined.rest}, indent=1)


if __name__ == "__main__":
    main()
