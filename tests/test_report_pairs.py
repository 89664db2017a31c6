"""Every pair of policies makes a page, on batches and streams, with and without classes."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from decima import EvaluationConfig, Report, evaluate
from decima.cli.evaluate import page_sections
from decima.cli.main import main
from decima.policy_names import SHIPPED_MODEL
from decima.registry import HEURISTICS
from decima.report.page import page

POLICIES = (*HEURISTICS, SHIPPED_MODEL)
CLASSES: dict[str, dict[str, Any]] = {
    "one class": {},
    "two classes": {"classes": "4x1,8x1", "demands": "drawn"},
}
ARRIVALS: dict[str, dict[str, Any]] = {
    "batch": {"arrivals": "batch"},
    "stream": {"interarrival_s": 3.0},
}

OWN = """
from spark_sim import PASS, Action

class Widest:
    name = "widest"

    def decide(self, seen):
        for stage in seen.open_stages():
            return Action(int(stage), int(max(seen.legal_limits(stage))))
        return PASS
"""


def data_of(text: str) -> dict[str, Any]:
    """The data that a page's script draws, by the rules of JSON: no NaN, no infinity."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    assert found is not None

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    content: dict[str, Any] = json.loads(found.group(1), parse_constant=refuse)
    return content


@pytest.fixture(scope="module")
def config(trace_file: Path) -> EvaluationConfig:
    """Three jobs on two executors: every policy decides, and a page costs little."""
    return EvaluationConfig(
        trace=str(trace_file), policies=POLICIES, executors=2, jobs=3, sequences=2
    )


@pytest.mark.parametrize("arrivals", ARRIVALS)
@pytest.mark.parametrize("classes", CLASSES)
def test_every_pair_of_policies_makes_a_page(
    config: EvaluationConfig, classes: str, arrivals: str
) -> None:
    setting = replace(config, **CLASSES[classes], **ARRIVALS[arrivals])
    every = evaluate(setting, timelines=range(2))
    for pair in permutations(POLICIES, 2):
        both = {name: every.policies[name] for name in pair}
        report = Report(replace(every.config, policies=pair), every.trace, both)
        data = data_of(page(page_sections(report), title="t", command="c"))
        assert [run["policy"] for run in data["timelines"][:2]] == list(pair), pair
        assert bool(data["decisions"]) == (SHIPPED_MODEL in pair), pair


def test_policies_of_other_kinds_make_pages_too(trace_file: Path, tmp_path: Path) -> None:
    """Code of one's own and drawn actions, each before and after the network."""
    (tmp_path / "own.py").write_text(OWN)
    for name in (f"{tmp_path}/own.py:Widest", "decima:sampled"):
        for pair in permutations((name, SHIPPED_MODEL)):
            path = tmp_path / "page.html"
            setting = ("--executors", 2, "--jobs", 2, "--sequences", 1, "--batch")
            asked = ("--trace", trace_file, *setting, "--policies", ",".join(pair))
            arguments = [str(word) for word in ("evaluate", *asked, "--report", path)]
            result = CliRunner().invoke(main, arguments)
            assert result.exit_code == 0, (pair, result.output)
            (plan, *_) = data_of(path.read_text())["decisions"]
            assert list(plan["others"]) == [one for one in pair if "own.py" in one]
            path.unlink()
