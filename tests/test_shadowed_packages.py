"""Files and folders of a user that have the name of one of our packages."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from decima_packages import NEEDS
from tests.commands import ran

ROOT = Path(__file__).parents[1]


def imported(
    package: str, folder: Path, program: str = "import {}"
) -> subprocess.CompletedProcess[str]:
    """What becomes of an import by a program that lies in `folder`."""
    there = {"PYTHONPATH": str(ROOT)}
    return ran("-c", program.format(package), folder=folder, environment=there)


def refused(done: subprocess.CompletedProcess[str], package: str, name: str, place: Path) -> None:
    """The last line of the traceback names what comes first, and whose place it takes."""
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        f"ImportError: {package} needs the package {name!r} of decima-scheduler ({ROOT / name}), "
        f"but {place} comes first: rename that, or start Python where it is not on the path"
    )


@pytest.mark.parametrize("name", NEEDS["decima"])
def test_a_file_of_that_name_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / f"{name}.py").write_text("")
    refused(imported("decima", tmp_path), "decima", name, tmp_path / f"{name}.py")


@pytest.mark.parametrize("package", ["spark_sim", "deeprm", "harmony"])
def test_every_package_that_is_imported_looks(tmp_path: Path, package: str) -> None:
    (tmp_path / "traces").mkdir()
    (tmp_path / "traces" / "__init__.py").write_text("")
    refused(imported(package, tmp_path), package, "traces", tmp_path / "traces" / "__init__.py")


def test_a_module_that_is_loaded_already_is_named(tmp_path: Path) -> None:
    (tmp_path / "traces.py").write_text("")
    program = "import traces, sys; sys.path.remove(''); __import__('{}')"
    done = imported("spark_sim", tmp_path, program)
    refused(done, "spark_sim", "traces", tmp_path / "traces.py")


@pytest.mark.parametrize("name", ["files", "rl"])
def test_what_is_not_needed_may_have_any_name(tmp_path: Path, name: str) -> None:
    """A user's own `files.py` or `rl.py`; a folder without code shadows nothing either."""
    (tmp_path / f"{name}.py").write_text("raise SystemExit('mine')")
    (tmp_path / "traces").mkdir()
    assert imported("decima.cli.main", tmp_path).returncode == 0
