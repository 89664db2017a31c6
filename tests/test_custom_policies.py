"""Policies of a user's own: objects in a program; at the command line, files and classes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from decima import EvaluationConfig, PolicyError, evaluate
from decima.custom_policies import CustomPolicy, is_custom, packaged
from decima.errors import ConfigError
from decima.evaluation import simulate
from decima.evaluation.config import setting_of
from decima.evaluation.runner import Workload
from decima.evaluation.timeline import timeline_table
from decima.report.results import results_of
from decima.rl.statistics import difference_percent
from decima.whatif import WhatIfSettings
from spark_sim import Action, Observation
from tests.commands import Command, refused, small_config, succeeded

GREEDY = """
from dataclasses import dataclass

from helper_of_greedy import most
from spark_sim import Action


@dataclass
class Greedy:
    made: int = 0

    def decide(self, seen):
        self.made += 1
        stage = int(seen.open_stages()[0])
        return Action(stage, most(seen, stage))
"""
HELPER = "def most(seen, stage):\n    return int(max(seen.legal_limits(stage)))\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a policy and what it imports."""
    (tmp_path / "greedy.py").write_text(GREEDY)
    (tmp_path / "helper_of_greedy.py").write_text(HELPER)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("greedy", "helper_of_greedy"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


def test_an_installed_package_names_its_policies(
    run: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In its entry points; a name of ours stays ours."""
    metadata = folder / "greedy-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: greedy\nVersion: 1.0\n")
    points = "[decima.policies]\nmine = greedy:Greedy\nfifo = greedy:Greedy\n"
    (metadata / "entry_points.txt").write_text(points)
    monkeypatch.syspath_prepend(str(folder))
    packaged.cache_clear()
    try:
        assert packaged()["mine"] == "greedy:Greedy"
        assert [is_custom(name) for name in ("mine", "fifo", "yours")] == [True, False, False]
        few = ("--jobs", "4", "--sequences", "2", "--executors", "8")
        policies = "strict_fair,mine,greedy:Greedy"
        succeeded(run(*few, "--policies", policies, "--json", "out.json"))
        content = json.loads(Path("out.json").read_text())["policies"]
        assert content["mine"]["jct_s"] == content["greedy:Greedy"]["jct_s"]
        refused(run("--policies", "mine", "--cluster", "local[1]"), "'mine' is code of your own")
        assert content["mine"]["jct_s"] != content["strict_fair"]["jct_s"]
    finally:
        packaged.cache_clear()


@pytest.mark.parametrize(("name", "workers"), [("./greedy.py:Greedy", 1), ("greedy:Greedy", 2)])
def test_a_class_of_ones_own_is_compared(
    run: Command, name: str, workers: int, folder: Path
) -> None:
    """As the reference or beside it, in other processes too; here it plays as fifo does."""
    from decima.own_code import _module

    _module.cache_clear()
    out = folder / "out.json"
    files = ("--json", out, "--report", folder / "page.html", "--timeline", folder / "tasks.csv")
    result = succeeded(run("--policies", f"{name},fifo", "--workers", workers, *files))
    assert f"vs {name} " in result.stdout
    content = json.loads(out.read_text())
    assert list(content["policies"]) == [name, "fifo"]
    own, fifo = (policy["avg_jct_s"]["per_sequence"] for policy in content["policies"].values())
    assert len(own) == 3
    assert own == pytest.approx(fifo, rel=0.5)
    assert name in (folder / "tasks.csv").read_text()


BAD = {
    "none.py:Greedy": ("cannot load none.py", "No such file"),
    "no_module_of_this_name:Greedy": ("No module named 'no_module_of_this_name'",),
    "greedy.py:Gredy": ("greedy.py has no class or function 'Gredy'",),
    "greedy.py:": ("greedy.py has no class or function ''",),
    "fifo:sampled": ("No module named 'fifo'",),
    "decima:search": ("decima has no", "'search'"),
    "broken.py:A": ("cannot load broken.py", "SyntaxError", "broken.py, line 2"),
    "raises.py:A": ("cannot load raises.py", "ZeroDivisionError", "(raises.py, line 3)"),
    "leaves.py:A": ("cannot load leaves.py", "SystemExit: 3", "(leaves.py, line 1)"),
    "bad.py:Needs": ("cannot be made", "TypeError", "missing 1 required positional argument"),
    "bad.py:Idle": ("'bad.py:Idle' has no method decide(observation)",),
    "bad.py:number": ("bad.py has no class or function 'number'",),
    "bad.py:Fails": ("decide failed: KeyError: 'x' (bad.py, line 7)",),
    "bad.py:Forgets": ("decide gave None, not an Action",),
    "bad.py:Illegal": ("policy 'bad.py:Illegal': stage 0: limit 999 must",),
}
FILES = {
    "broken.py": "class A:\n    def decide(self, seen) return 1\n",
    "raises.py": "class A:\n    pass\n1 / 0\n",
    "leaves.py": "raise SystemExit(3)\n",
    "bad.py": (
        "from spark_sim import Action\nnumber = 3\nclass Idle: pass\n"
        "class Needs:\n    def __init__(self, x): pass\n"
        "class Fails:\n    def decide(self, seen): return {}['x']\n"
        "class Forgets:\n    def decide(self, seen): pass\n"
        "class Illegal:\n    def decide(self, seen): return Action(0, 999)\n"
    ),
}


@pytest.mark.parametrize(("name", "workers"), [*((name, 1) for name in BAD), ("bad.py:Fails", 2)])
def test_what_is_wrong_with_it_is_one_line(
    run: Command, name: str, workers: int, folder: Path
) -> None:
    """With the place in the user's code; nothing is written."""
    for file, content in FILES.items():
        (folder / file).write_text(content)
    out = folder / "out.json"
    result = run("--policies", f"fifo,{name}", "--workers", workers, "--json", out)
    refused(result, f"policy {name!r}", *BAD[name])
    assert not out.exists()


def test_executors_of_a_cluster_lack_the_code(run: Command, folder: Path) -> None:
    result = run("--policies", "fifo,greedy.py:Greedy", "--cluster", "spark://nowhere:1")
    refused(result, "'greedy.py:Greedy'", "--cluster lack")


def test_only_evaluations_take_such_names(folder: Path) -> None:
    """What is read from a file runs no code, and has nothing to set."""
    trap = folder / "trap.py"
    trap.write_text("raise SystemExit('was run')\n")
    with pytest.raises(ConfigError, match="policies belongs to the command"):
        setting_of({"policies": ["trap.py:Trap"]})
    with pytest.raises(PolicyError, match=r"unknown policy 'trap.py:Trap'"):
        WhatIfSettings(4, policies=("trap.py:Trap",))
    with pytest.raises(ConfigError, match="no parameters to set"):
        EvaluationConfig(policies=("trap.py:Trap",), parameters={"trap.py:Trap": {"x": 1.0}})
    assert not is_custom("decima:sampled")
    with pytest.raises(PolicyError, match="was run"):
        CustomPolicy("trap.py:Trap")


# --- objects in a program ------------------------------------------------------------------------


class Polite:
    """The first open stage, with all executors."""

    name = "polite"

    def decide(self, observation: Observation) -> Action:
        stage = int(observation.open_stages()[0])
        return Action(stage, int(max(observation.legal_limits(stage))))


def test_policies_of_ones_own_stand_in_the_report(trace_file: Path) -> None:
    """Paired with the others on the same sequences, in the JSON, and in the timeline."""
    settings = small_config(trace_file, policies=("strict_fair", "fifo"), sequences=3)
    progress: list[tuple[int, int]] = []
    report = evaluate(
        settings, own=(Polite,), timelines=(0,), progress=lambda *done: progress.append(done)
    )
    assert list(report.policies) == ["strict_fair", "fifo", "polite"]
    assert progress == [(done, 9) for done in range(10)]
    workload = Workload.load(settings.trace)
    alone = [simulate(workload, settings, Polite(), k).metrics.avg_jct_s for k in range(3)]
    assert report.policies["polite"].avg_jct_s.tolist() == alone
    expected = difference_percent(np.array(alone), report.reference.avg_jct_s)
    assert report.difference("polite") == expected
    results = results_of(report.to_json(), "here")
    assert list(results.policies) == ["strict_fair", "fifo", "polite"]
    assert "polite" in timeline_table(report)["policy"].to_pylist()
    with pytest.raises(ConfigError, match="'polite' is there already"):
        evaluate(settings, own=(Polite, Polite))
    silent = Polite()
    silent.decide = lambda _: None  # type: ignore[method-assign,assignment,return-value]
    with pytest.raises(TypeError, match="policy 'polite': decide gave None, not an Action"):
        simulate(workload, settings, silent, 0)
