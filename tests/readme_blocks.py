"""Runs the code blocks of Markdown files, as a newcomer would type them.

    python -m tests.readme_blocks README.md docs/quick-start.md

Python blocks run in a fresh interpreter each, shell blocks (`sh`) line by line, those of a file in
one folder that holds no more than the repository's `docs` and `tests`. `git`, `make test` and the
installation are left out: the caller has done them. `make run` trains for a quarter of a minute
instead of three.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
DONE_BY_CALLER = ("git ", "cd ", "make test", "make lint", "make docs", "pip ", ". ")
DATA = ("docs", "tests")
_BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    language: str
    code: str

    def commands(self) -> list[list[str]]:
        """What to execute, one command after the other."""
        if self.language == "python":
            return [[sys.executable, "-c", self.code]]
        lines = [line.split("  #")[0].strip() for line in self.code.splitlines()]
        return [
            _command(line) for line in lines if line and not line.startswith(("#", *DONE_BY_CALLER))
        ]


def _command(line: str) -> list[str]:
    if line.startswith("make "):
        return ["make", "-C", str(ROOT), *line.split()[1:]]
    return ["bash", "-euc", line]


def blocks(text: str) -> list[Block]:
    """The Python and shell blocks of a Markdown text, in order."""
    return [Block(language, code) for language, code in _BLOCK.findall(text)]


def run_file(path: Path) -> int:
    """Run all blocks of `path`; the number of commands that ran.

    Raises:
        subprocess.CalledProcessError: a command failed.
    """
    search = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": search, "MINUTES": "0.25"}
    count = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in DATA:
            (Path(folder) / name).symlink_to(ROOT / name)
        for block in blocks(path.read_text()):
            for command in block.commands():
                subprocess.run(command, check=True, cwd=folder, env=environment)  # noqa: S603 - our own documents
                count += 1
    return count


def main(arguments: Sequence[str]) -> int:
    ran = sum(run_file(Path(name).resolve()) for name in arguments)
    sys.stdout.write(f"{ran} commands of {' '.join(arguments)} ran\n")
    return 0 if ran else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
