"""Make `harmony/data/interference.json` and `arrivals.json` from what was published.

    python -m benchmarks.harmony_data FOLDER

FOLDER holds DeepShare's tables (Apache-2.0): `deepshare_shared_thp_ratio.csv`,
`deepshare_isolated_thp.csv` and `deepshare_total_samples_trained.csv`; and Gavel's
`gavel_throughputs.json` (MIT).

Figures are copied as they stand; entries marked `assumed` were not measured.
DeepShare measured six models as distributed jobs of 2, 4 and 8 GPUs on 2, 4 and 8 nodes. Of Gavel
one figure a model is stored: how much faster 2 GPUs of one V100 server are than 2 of two.
The arrivals are drawn here, by a process that switches between a calm and a busy state.
"""

from __future__ import annotations

import argparse
import csv
import json
from pathlib import Path
from typing import Any

import numpy as np

from traces.files.writing import write_json

OUT = Path(__file__).parents[1] / "harmony" / "data"
ARRIVALS = 4_000
BUSY_RATE, CALM_RATE = 3.0, 0.4
"""jobs, of a long mean of about 1, in the two states"""
STAY = 25.0
"""mean time in a state"""
GAVEL = {"Transformer": "Transformer (batch size 64)", "ResNet-50": "ResNet-50 (batch size 64)"}

# What a job asks for is not published with the measurements. Whole units for each worker: GPUs,
# CPU cores, GB of memory, Gbit/s; for each parameter server the same; share of the largest tensor;
# which of Gavel's models is alike, where one is. `cpu` and `traffic` are for the analytic model:
# cores that a worker really keeps busy, and Gbit/s that it really sends when it is alone.
ASSUMED: dict[str, dict[str, Any]] = {
    name: dict(zip(("worker", "ps", "cpu", "traffic", "skew", "like"), row, strict=True))
    for name, row in {
        "MobileNetV3": ([1, 3, 8, 4], [0, 1, 4, 4], 5.0, 4.0, 0.1, "ResNet-50"),
        "GraphSage": ([1, 2, 12, 6], [0, 1, 4, 4], 4.0, 8.0, 0.2, None),
        "FSDP": ([1, 1, 10, 12], [0, 1, 6, 10], 1.0, 30.0, 0.1, None),
        "Transformer-XL": ([1, 2, 8, 10], [0, 2, 6, 10], 1.5, 24.0, 0.6, "Transformer"),
        "DLRM": ([1, 2, 12, 8], [0, 2, 8, 8], 4.5, 14.0, 0.9, None),
        "MoE": ([1, 1, 10, 12], [0, 1, 6, 10], 1.5, 32.0, 0.7, None),
    }.items()
}


def table(path: Path) -> tuple[list[str], list[str], list[list[float]]]:
    """Names of the rows and columns, and the numbers, of a CSV file."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        header, *rows = [row for row in csv.reader(file) if row]
    return [row[0] for row in rows], header[1:], [[float(cell) for cell in row[1:]] for row in rows]


def deepshare(folder: Path) -> dict[str, Any]:
    """Throughputs and ratios of distributed jobs."""
    names, columns, ratio = table(folder / "deepshare_shared_thp_ratio.csv")
    alone_names, _, alone = table(folder / "deepshare_isolated_thp.csv")
    models, gpus, samples = table(folder / "deepshare_total_samples_trained.csv")
    if names != columns or names != alone_names:
        raise SystemExit(f"{folder}: DeepShare's tables do not have the same rows")
    configurations = [name.split(",") for name in names]
    return {
        "source": "https://github.com/gajagajago/deepshare (arXiv 2310.20209)",
        "licence": "Apache-2.0",
        "models": models,
        "configurations": [[models.index(m), int(g), int(n)] for m, g, n in configurations],
        "samples_per_s": [row[0] for row in alone],
        "samples_in_all": {size: [row[i] for row in samples] for i, size in enumerate(gpus)},
        "ratio": ratio,
    }


def gavel(folder: Path) -> dict[str, Any]:
    """Steps per second of 2 GPUs of one server and of two."""
    throughputs = json.loads((folder / "gavel_throughputs.json").read_text())
    together, apart = throughputs["v100"], throughputs["v100_unconsolidated"]
    keys = {name: f"('{full}', 2)" for name, full in GAVEL.items()}
    return {
        "source": "https://github.com/stanford-futuredata/gavel",
        "licence": "MIT",
        "steps_per_s_of_2_gpus": {
            name: [together[key]["null"], apart[key]["null"]] for name, key in keys.items()
        },
    }


def arrivals() -> list[float]:
    """Times of arrival with a mean distance of 1, in bursts."""
    rng = np.random.default_rng(2019)
    times: list[float] = []
    now = 0.0
    busy = False
    while len(times) < ARRIVALS:
        until = now + rng.exponential(STAY)
        rate = BUSY_RATE if busy else CALM_RATE
        while (now := now + rng.exponential(1.0 / rate)) < until:
            times.append(now)
        now, busy = until, not busy
    arrivals = np.array(times[:ARRIVALS])
    return [round(float(time), 3) for time in arrivals * ARRIVALS / arrivals[-1]]


def main() -> None:
    """Write both files."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    measured = {"schema": 1, "deepshare": deepshare(folder), "gavel": gavel(folder)}
    write_json(OUT / "interference.json", measured | {"assumed": ASSUMED}, indent=None)
    drawn = {"schema": 1, "source": "benchmarks/harmony_data.py", "arrivals": arrivals()}
    write_json(OUT / "arrivals.json", drawn, indent=None)


if __name__ == "__main__":
    main()
