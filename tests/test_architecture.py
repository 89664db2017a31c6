"""Who may import whom, and that nothing which reads a file can execute it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
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
}
"""packages inside others that know nothing of jobs"""
KNOWS_NO_SPARK = {"traces.files", "spark_sim.compiled", "decima.rl"}
"""all that the older systems stand on"""
EXECUTING = {
    ROOT / "traces" / "decima_sim.py",  # restricted to arrays
    ROOT / "spark_sim" / "compiled" / "cache.py",  # machine code that only the user can have made
}
OURS = {*MAY_IMPORT, "benchmarks", "tests"}


def sources(package: str) -> list[Path]:
    found = sorted((ROOT / package).rglob("*.py"))
    assert found, f"no source in {package}"
    return found


def imported(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and top-level package of every import, inside functions and type checks too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name.partition(".")[0]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide where things come from"
            yield node.lineno, str(node.module).partition(".")[0]


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_imports_point_one_way(package: str) -> None:
    """traces <- spark_sim <- decima -> gnn; deeprm, harmony -> decima.rl; none needs tests."""
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in sources(package)
        for line, name in imported(ast.parse(path.read_text()))
        if name in OURS - MAY_IMPORT[package]
    ]
    assert wrong == []


@pytest.mark.parametrize(("package", "may"), [*WITHIN.items()])
def test_packages_that_know_no_jobs_stand_by_themselves(package: str, may: set[str]) -> None:
    """Each is a folder inside the package that owns the subject, and imports none of its rest."""
    folder = package.replace(".", "/")
    assert modules_beyond(folder, may) == []


def test_policy_gradients_run_without_other_processes() -> None:
    """So whoever imports `decima.rl` alone, as the older systems do, needs no Spark."""
    inside = modules_beyond("decima/rl", {"traces.files", "decima.rl"})
    parallel = [
        f"{path.relative_to(ROOT)}:{line}"
        for package in ("decima/rl", "deeprm", "harmony")
        for path in sources(package)
        if "parallel" not in path.parts
        for line, module in imported_modules(ast.parse(path.read_text()))
        if module.startswith("decima.rl.parallel")
    ]
    assert inside == parallel == []


@pytest.mark.parametrize("package", ["deeprm", "harmony"])
def test_the_older_systems_stand_on_nothing_that_knows_spark(package: str) -> None:
    """Files, compiled code and policy gradients are all that they share with the rest."""
    assert modules_beyond(package, {*KNOWS_NO_SPARK, package}) == []


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
    above = {f"decima.{one}" for one in UPWARDS[UPWARDS.index(part) + 1 :]}
    folder = ROOT / "decima" / part
    files = sorted(folder.rglob("*.py")) if folder.is_dir() else [folder.with_suffix(".py")]
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {module}"
        for path in files
        for line, module in imported_modules(ast.parse(path.read_text()))
        if any(module == one or module.startswith(f"{one}.") for one in above)
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


def modules_beyond(folder: str, may: set[str]) -> list[str]:
    """Imports of our own modules in a folder that belong to none of the packages `may`."""
    return [
        f"{path.relative_to(ROOT)}:{line} imports {module}"
        for path in sources(folder)
        for line, module in imported_modules(ast.parse(path.read_text()))
        if module.partition(".")[0] in OURS
        and not any(module == one or module.startswith(f"{one}.") for one in may)
    ]


def imported_modules(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and whole name of every module that is imported."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.lineno, str(node.module)


def test_each_package_checks_all_that_it_imports() -> None:
    """Itself or through others."""
    for package, needs in NEEDS.items():
        reached = {package}
        while (wider := reached.union(*(MAY_IMPORT[one] for one in reached))) != reached:
            reached = wider
        assert set(needs) == reached - {package}
    assert set(NEEDS) == set(MAY_IMPORT)
    for package in NEEDS:
        text = ast.unparse(ast.parse((ROOT / package / "__init__.py").read_text()))
        ours = [line for line in text.splitlines() if "decima_packages" in line]
        assert ours == ["import decima_packages", f"decima_packages.check('{package}')"]


def test_the_check_sees_imports_wherever_they_stand() -> None:
    """Inside functions, under TYPE_CHECKING, with and without `from`."""
    text = "def f():\n    import decima.cli\nif x:\n    from spark_sim.tables import NONE\n"
    assert list(imported(ast.parse(text))) == [(2, "decima"), (4, "spark_sim")]


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_every_module_says_what_it_is(package: str) -> None:
    """A docstring at the top of each file."""
    silent = [
        str(path.relative_to(ROOT))
        for path in sources(package)
        if ast.get_docstring(ast.parse(path.read_text())) is None
    ]
    assert silent == []


def test_every_sleep_of_a_test_has_a_reason() -> None:
    """A comment beside or above it, unless it is the pause of a loop that waits for something."""
    bare = [
        f"{path.name}:{line}"
        for path in sorted((ROOT / "tests").glob("*.py"))
        for line in _bare_sleeps(path.read_text())
    ]
    assert bare == []


def test_a_sleep_without_a_reason_is_recognised() -> None:
    source = "sleep(1)\nsleep(2)  # noqa: X\nsleep(3)  # why\n# Why.\nsleep(4)\n"
    assert _bare_sleeps(source) == [1, 2]
    assert _bare_sleeps("while not done():\n    time.sleep(1)\n    f()\ntime.sleep(2)\n") == [4]


def _bare_sleeps(source: str) -> list[int]:
    """Lines of sleeps that neither a comment explains nor a `while` repeats."""
    if "sleep(" not in source:
        return []
    lines = source.splitlines()
    sleeps: set[int] = set()
    pauses: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("sleep", "time.sleep"):
            sleeps.add(node.lineno)
        if isinstance(node, ast.While):
            pauses.update(range(node.lineno, (node.end_lineno or 0) + 1))
    reason = re.compile(r"# (?!noqa|type:)")
    return sorted(
        line
        for line in sleeps - pauses
        if not reason.search(lines[line - 1]) and not reason.match(lines[max(line - 2, 0)].strip())
    )


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_nothing_that_reads_a_file_can_run_it(package: str) -> None:
    """No reader that executes; the exceptions are tested where they are."""
    wrong = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in sources(package)
        if path not in EXECUTING
        for line in _executing(path.read_text())
    ]
    assert wrong == []


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from pickle import loads",
        "import joblib.externals",
        "eval(text)",
        "yaml.unsafe_load(text)",
        "torch.load(path)",
        "torch.load(path, weights_only=False)",
        "np.load(path, allow_pickle=True)",
    ],
)
def test_readers_that_execute_are_recognised(source: str) -> None:
    assert _executing(f"x = 1\n{source}") == [2]


@pytest.mark.parametrize(
    "source", ["import json", "torch.load(path, weights_only=True)", "model.eval()"]
)
def test_others_are_not(source: str) -> None:
    assert _executing(source) == []


_RUNS_CODE = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"}
_CALLS = {"eval", "exec", "yaml.load", "yaml.unsafe_load", "yaml.full_load"}


def _executing(source: str) -> list[int]:
    """Lines that import or call what can run what it reads."""
    return [node.lineno for node in ast.walk(ast.parse(source)) if _executes(node)]


def _executes(node: ast.AST) -> TypeGuard[ast.stmt | ast.expr]:
    if isinstance(node, ast.Import):
        return any(alias.name.partition(".")[0] in _RUNS_CODE for alias in node.names)
    if isinstance(node, ast.ImportFrom):
        return (node.module or "").partition(".")[0] in _RUNS_CODE
    if not isinstance(node, ast.Call):
        return False
    name = ast.unparse(node.func)
    told = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
    if name == "torch.load":
        return told.get("weights_only") != "True"
    return name in _CALLS or told.get("allow_pickle", "False") != "False"


def test_a_newcomers_questions_have_one_file_each() -> None:
    """Those in docs/architecture.md, each with a file of this tree, and no file twice."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([^|]+\?) \| ([^|]+) \|$", text, re.MULTILINE)
    named = [re.fullmatch(r"`([\w./]+)`", cell) for _, cell in rows]
    files = [found[1] for found in named if found is not None]
    assert len(rows) == len(files) == len(set(files)) > 10
    assert [file for file in files if not (ROOT / file).is_file()] == []
