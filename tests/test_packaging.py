"""What a wheel holds, what an index shows of it, and what it says of what it lacks."""

from __future__ import annotations

import importlib.util
import re
import shutil
import zipfile
from email import message_from_string
from email.message import Message
from pathlib import Path
from types import ModuleType

import pytest
from click.testing import CliRunner

from decima_packages import NEEDS
from tests.commands import PROGRAMS, one_line, python
from tests.readme_blocks import blocks

ROOT = Path(__file__).parents[1]
TUTORIALS = [ROOT / "docs" / "quick-start.md"]
_BUILD = "from setuptools.build_meta import build_wheel; print(build_wheel('dist'))"
_RELATIVE = re.compile(r"\]\((?![a-z]+://)[^)]*\)")


@pytest.fixture(scope="module")
def setup() -> ModuleType:
    """`setup.py`, without building anything."""
    spec = importlib.util.spec_from_file_location("our_setup", ROOT / "setup.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_MACHINE_CODE = "spark_sim/compiled/data/simulator-0-x86-64-v3-linux-cpython-311.tar.xz"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """A wheel of this tree, built without a network."""
    pytest.importorskip("setuptools", "77", reason="building needs setuptools 77")
    folder = tmp_path_factory.mktemp("build")
    for name in ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    shutil.copy(ROOT / "decima_packages.py", folder)
    for package in NEEDS:
        shutil.copytree(
            ROOT / package,
            folder / package,
            ignore=shutil.ignore_patterns("__pycache__", "*.jar", "*.tar.xz"),
        )
    machine_code = folder / _MACHINE_CODE
    machine_code.parent.mkdir(exist_ok=True)
    machine_code.write_bytes(b"")
    name = python("-c", _BUILD, folder=folder).split()[-1]
    return zipfile.ZipFile(folder / "dist" / name)


@pytest.fixture(scope="module")
def metadata(wheel: zipfile.ZipFile) -> Message:
    """Its metadata, as an index reads them."""
    (name,) = (path for path in wheel.namelist() if path.endswith(".dist-info/METADATA"))
    return message_from_string(wheel.read(name).decode())


def test_a_wheel_has_all_code_and_data_that_commands_need(wheel: zipfile.ZipFile) -> None:
    names = set(wheel.namelist())
    code = {
        str(path.relative_to(ROOT))
        for package in NEEDS
        for path in (ROOT / package).rglob("*.py")
    }  # fmt: skip
    assert code | {"decima_packages.py"} <= names
    for folder in (
        "decima/agent/data",
        "decima/heuristics/data",
        "traces/data",
        "traces/tpch/queries",
        "decima/report/static",
        "decima/spark/java",
    ):
        files = [path for path in (ROOT / folder).rglob("*") if path.is_file()]
        assert files
        assert {str(path.relative_to(ROOT)) for path in files} <= names
    for data in ("deeprm/data/curves.json", "harmony/data/interference.json", _MACHINE_CODE):
        assert data in names


def test_a_wheel_is_light(wheel: zipfile.ZipFile) -> None:
    """The models of the older systems, twenty times as much as the rest, stay out."""
    assert sum(entry.compress_size for entry in wheel.infolist()) < 2e6
    models = [name for name in wheel.namelist() if name.endswith(".safetensors")]
    assert models == ["decima/agent/data/decima.safetensors"]


def test_gymnasium_makes_each_environment_without_an_import(
    wheel: zipfile.ZipFile, tmp_path: Path
) -> None:
    """By the names in docs/environment.md, of an installed wheel."""
    wheel.extractall(tmp_path)
    page = (ROOT / "docs" / "environment.md").read_text()
    names = sorted(set(re.findall(r"\b\w+\.env:\w+/\w+-v\d", page)))
    assert len(names) == 4
    code = f"import gymnasium; print([gymnasium.make(one).spec.id for one in {names}])"
    printed = python("-c", code, folder=tmp_path, environment={"PYTHONPATH": str(tmp_path)})
    assert printed.strip() == str([name.partition(":")[2] for name in names])


def test_an_index_shows_no_link_that_leads_nowhere(metadata: Message) -> None:
    """The text of README.md, whose own links are relative to the repository."""
    text = str(metadata.get_payload())
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert text.startswith("# decima-scheduler\n")
    assert _RELATIVE.findall((ROOT / "README.md").read_text())
    assert _RELATIVE.findall(text) == []
    assert "from decima import EvaluationConfig" in text


def test_every_supported_python_is_a_classifier(metadata: Message) -> None:
    classifiers = [line for line in metadata.get_all("Classifier", []) if "Python :: 3." in line]
    assert [classifier.rpartition(" ")[2] for classifier in classifiers] == ["3.11", "3.12", "3.13"]


def test_links_become_those_of_the_documentation_site(setup: ModuleType) -> None:
    """Once its place is known; code and links to elsewhere stay."""
    text = (
        "[one](docs/a/b.md#c) and [two](CHANGELOG.md), [three](LICENSE), ![four](docs/x.png), "
        "[five](https://example.org/a.md), [six](#here)\n```sh\n[seven](docs/a.md)\n```\n"
    )
    assert setup.long_description(text, "https://docs.example/") == (
        "[one](https://docs.example/a/b.html#c) and [two](https://docs.example/changelog.html), "
        "three, four, [five](https://example.org/a.md), six\n```sh\n[seven](docs/a.md)\n```\n"
    )
    assert setup.long_description("[one](docs/a.md)", None) == "one"


@pytest.mark.parametrize("name", ["deeprm", "harmony"])
def test_figures_without_the_models_say_where_to_get_them(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an installed wheel has none: one line, and no folder."""
    monkeypatch.setattr("decima.rl.study.trainings.files", lambda _package: tmp_path)
    command = ["reproduce", "--out", str(tmp_path / "figures")]
    words = f"the trained models of {name} are not in its wheel: give --models"
    one_line(CliRunner().invoke(PROGRAMS[name], command), words)
    assert not (tmp_path / "figures").exists()


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_tutorial_needs_no_repository(page: Path) -> None:
    code = "\n".join(block.code for block in blocks(page.read_text()))
    assert code
    assert re.findall(r"\b(?:tests|docs|benchmarks)/|\bmake\b", code) == []
