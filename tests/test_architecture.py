"""Who may import whom, and that nothing which reads a file can execute it."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from graphlib import TopologicalSorter
from pathlib import Path
from typing import TypeGuard

import pytest

from decima_packages import NEEDS

ROOT = Path(__file__).parents[1]
MAY_IMPORT = {
    "traces": {"traces"},
    "spark_sim": {"traces", "spark_sim"},
    "gnn": {"gnn"},
    "decima": {"traces", "spark_sim", "gnn", "decima"},
    "deeprm": {"traces", "spark_sim", "decima", "deeprm"},
    "harmony": {"traces", "spark_sim", "decima", "harmony"},
}
WITHIN = {
    "traces.files": {"traces.files"},
    "spark_sim.compiled": {"traces.files", "spark_sim.compiled"},
    "decima.rl.parallel": {"traces.files", "decima.rl.parallel"},
    "decima.rl": {"traces.files", "decima.rl"},
    "deeprm": {"traces.files", "spark_sim.compiled", "decima.rl", "deeprm"},
    "harmony": {"traces.files", "spark_sim.compiled", "decima.rl", "harmony"},
}
"""what packages that know neither jobs nor Spark may import of ours"""
EXECUTING = {
    ROOT / "traces" / "decima_sim.py",  # restricted to arrays
    ROOT / "spark_sim" / "compiled" / "cache.py",  # machine code that only the user can have made
}
OURS = {*MAY_IMPORT, "benchmarks", "tests"}


def sources(package: str) -> list[Path]:
    files = sorted((ROOT / package).rglob("*.py"))
    assert files, f"no source in {package}"
    return files


def imported(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and whole name of every imported module, inside functions and type checks too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide where things come from"
            yield node.lineno, str(node.module)


def is_within(module: str, packages: Collection[str]) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def beyond(package: str, may: Collection[str]) -> list[str]:
    """Imports of our own modules in a package that belong to none of the packages `may`."""
    return [
        f"{path.relative_to(ROOT)}:{line} imports {module}"
        for path in sources(package.replace(".", "/"))
        for line, module in imported(ast.parse(path.read_text()))
        if is_within(module, OURS) and not is_within(module, may)
    ]


@pytest.mark.parametrize(("package", "may"), [*MAY_IMPORT.items(), *WITHIN.items()])
def test_imports_point_one_way(package: str, may: set[str]) -> None:
    """traces <- spark_sim <- decima -> gnn; deeprm, harmony -> decima.rl; none needs tests."""
    assert beyond(package, may) == []


def test_policy_gradients_run_without_other_processes() -> None:
    """So `decima.rl` alone, which the older systems import, needs no Spark."""
    parallel = [
        f"{path.relative_to(ROOT)}:{line}"
        for package in ("decima/rl", "deeprm", "harmony")
        for path in sources(package)
        if "parallel" not in path.parts
        for line, module in imported(ast.parse(path.read_text()))
        if is_within(module, {"decima.rl.parallel"})
    ]
    assert parallel == []


UPWARDS = (
    "errors",
    "policy_names",
    "heuristics",
    "registry",
    "agent",
    "learned",
    "policies",
    "custom_policies",
    "evaluation",
)
"""parts of `decima`, each of which may import those before it"""


@pytest.mark.parametrize("part", UPWARDS)
def test_no_circle_joins_the_agent_the_policies_and_the_evaluation(part: str) -> None:
    """Inside functions and type checks neither."""
    above = {f"decima.{later}" for later in UPWARDS[UPWARDS.index(part) + 1 :]}
    folder = ROOT / "decima" / part
    files = sorted(folder.rglob("*.py")) if folder.is_dir() else [folder.with_suffix(".py")]
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {module}"
        for path in files
        for line, module in imported(ast.parse(path.read_text()))
        if is_within(module, above)
    ]
    assert files
    assert wrong == []


def test_no_files_import_each_other_in_a_circle() -> None:
    """Over all packages, inside functions and type checks too; a package's face is not a file."""
    files = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts): path
        for package in MAY_IMPORT
        for path in sources(package)
        if path.name != "__init__.py"
    }
    needs: dict[str, set[str]] = {name: set() for name in files}
    for name, path in files.items():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                inside = {f"{node.module}.{alias.name}" for alias in node.names}
                needs[name] |= ({str(node.module)} | inside) & files.keys()
            elif isinstance(node, ast.Import):
                needs[name] |= {alias.name for alias in node.names} & files.keys()
    assert sum(map(len, needs.values())) > len(files)  # the imports were found
    TopologicalSorter(needs).prepare()  # raises CycleError, which names them


def test_each_package_checks_all_that_it_imports() -> None:
    for package, needs in NEEDS.items():
        reached = {package}
        while (wider := reached.union(*(MAY_IMPORT[imported] for imported in reached))) != reached:
            reached = wider
        assert set(needs) == reached - {package}
    assert set(NEEDS) == set(MAY_IMPORT)
    for package in NEEDS:
        text = ast.unparse(ast.parse((ROOT / package / "__init__.py").read_text()))
        ours = [line for line in text.splitlines() if "decima_packages" in line]
        assert ours == ["import decima_packages", f"decima_packages.check('{package}')"]


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_nothing_that_reads_a_file_can_run_it(package: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in sources(package)
        if path not in EXECUTING
        for line in _executing(path.read_text())
    ]
    assert wrong == []


def test_readers_that_execute_are_recognised() -> None:
    executing = (
        "import pickle",
        "from pickle import loads",
        "import joblib.externals",
        "eval(text)",
        "yaml.unsafe_load(text)",
        "torch.load(path)",
        "torch.load(path, weights_only=False)",
        "np.load(path, allow_pickle=True)",
    )
    assert _executing("\n".join(executing)) == [*range(1, len(executing) + 1)]
    assert _executing("import json\ntorch.load(path, weights_only=True)\nmodel.eval()") == []


_RUNS_CODE = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"}
_CALLS = {"eval", "exec", "yaml.load", "yaml.unsafe_load", "yaml.full_load"}


def _executing(source: str) -> list[int]:
    return [node.lineno for node in ast.walk(ast.parse(source)) if _executes(node)]


def _executes(node: ast.AST) -> TypeGuard[ast.stmt | ast.expr]:
    if isinstance(node, ast.Import):
        return any(alias.name.partition(".")[0] in _RUNS_CODE for alias in node.names)
    if isinstance(node, ast.ImportFrom):
        return (node.module or "").partition(".")[0] in _RUNS_CODE
    if not isinstance(node, ast.Call):
        return False
    name = ast.unparse(node.func)
    arguments = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
    if name == "torch.load":
        return arguments.get("weights_only") != "True"
    return name in _CALLS or arguments.get("allow_pickle", "False") != "False"


def test_a_newcomers_questions_have_one_file_each() -> None:
    """Those in docs/architecture.md, each with a file of this tree, and no file twice."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([^|]+\?) \| ([^|]+) \|$", text, re.MULTILINE)
    named = [re.fullmatch(r"`([\w./]+)`", cell) for _, cell in rows]
    files = [name[1] for name in named if name is not None]
    assert len(rows) == len(files) == len(set(files)) > 10
    assert [file for file in files if not (ROOT / file).is_file()] == []
