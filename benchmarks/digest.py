"""Digests of results that a refactoring must leave the same, bit for bit.

    python -m benchmarks.digest -o before.json          # before the change
    python -m benchmarks.digest --compare before.json    # after it; exits with 1 on a difference

Each digest is of the files that one command writes: timelines and figures of all policies under
every protocol, models of two iterations of each step of a training, tuned parameters, what-if
studies. Plans of the JVM are compared with Python's by the tests (`tests/test_jvm_*.py`). Needs
some five CPU minutes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from safetensors.numpy import load_file

from decima.registry import HEURISTICS

TRAINING = """
[workload]
interarrival_s = [25.0]
executors = 10
[network]
hidden = [8]
head_hidden = [8]
[episodes]
start_jobs = 8
end_jobs = 10
[imitate]
iterations = {imitate}
[reinforce]
iterations = {reinforce}
[evolve]
iterations = {evolve}
pairs = 6
jobs = 8
[validation]
every = 1
sequences = 2
jobs = 8
"""
POLICIES = ",".join([*(name for name in HEURISTICS if name != "es_classes"), "decima"])
EVALUATE = f"evaluate --jobs 30 --sequences 2 --policies {POLICIES}"
COMMANDS = {
    "executors": f"{EVALUATE} --timeline OUT/t.csv --json OUT/r.json",
    "session": f"{EVALUATE} --protocol session --executors 16 --json OUT/r.json",
    "decima-sim": f"{EVALUATE} --protocol decima-sim --executors 20 --json OUT/r.json",
    "batch, noisy": f"{EVALUATE} --batch --estimates noisy --objective p95 --json OUT/r.json",
    "unknown": f"{EVALUATE} --protocol session --estimates none --json OUT/r.json",
    "classes": "evaluate --classes 4x6,8x4,16x2 --demands drawn --jobs 20 --sequences 2 --trace"
    " random-dag --policies strict_fair,es_classes,decima --json OUT/r.json",
    "tune": "tune --policy tuned_srw --jobs 10 --sequences 2 -o OUT/r.json",
    "fit-rule": "fit-rule --jobs 8 --sequences 2 --pairs 4 --generations 2 -o OUT/r.json",
    "imitate": "train --config OUT/imitate.toml --out OUT/run",
    "reinforce": "train --config OUT/reinforce.toml --out OUT/run",
    "evolve": "train --config OUT/evolve.toml --out OUT/run",
    "what-if": "whatif OUT/logs --draws 3 --sequences 3 --json OUT/r.json",
    "what-if, dynamic allocation": "whatif OUT/logs --draws 2 --sequences 2 --json OUT/r.json"
    " --allocation maxExecutors=4,executorIdleTimeout=5",
    "replay": "replay OUT/logs tests/data/spark_logs --json OUT/r.json",
}


def run(*arguments: str) -> None:
    """Run `decima` of this folder without its output; CalledProcessError if it fails."""
    command = [sys.executable, "-m", "decima", *arguments]
    subprocess.run(  # noqa: S603
        command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def digest(command: str, folder: Path) -> str:
    """SHA-256 of what a command of `decima` writes, without the time that it took."""
    for step in ("imitate", "reinforce", "evolve"):
        steps = {"imitate": 0, "reinforce": 0, "evolve": 0, step: 2}
        (folder / f"{step}.toml").write_text(TRAINING.format(**steps))
    run("traces", "sample-logs", str(folder / "logs"))
    run(*command.replace("OUT", str(folder)).split())
    hashed = hashlib.sha256()
    for path in sorted(folder.glob("*.csv")) + sorted(folder.glob("r.json")):
        hashed.update(path.read_bytes().replace(os.fsencode(folder), b""))
    for path in sorted(folder.glob("run/model.safetensors")):
        for name, weights in sorted(load_file(path).items()):
            hashed.update(name.encode() + weights.tobytes())
    return hashed.hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("-o", "--output", type=Path, help="JSON file to write")
    parser.add_argument("--compare", type=Path, help="such a file, of another commit")
    arguments = parser.parse_args()
    digests = {}
    for name, command in COMMANDS.items():
        with tempfile.TemporaryDirectory() as folder:
            digests[name] = digest(command, Path(folder))
        print(f"{name:28} {digests[name][:16]}", flush=True)
    if arguments.output is not None:
        arguments.output.write_text(json.dumps(digests, indent=1) + "\n")
    if arguments.compare is not None:
        before = json.loads(arguments.compare.read_text())
        different = [name for name in COMMANDS if before.get(name) != digests[name]]
        if different:
            sys.exit(f"different: {', '.join(different)}")


if __name__ == "__main__":
    main()
