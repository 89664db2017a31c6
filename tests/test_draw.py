"""Drawings of jobs: every stage is there, nothing overlaps, equal jobs give equal files."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.shapes import chain
from traces import Job, Stage, TraceError, load_trace
from traces.draw import MAX_STAGES, _chains, _heights, draw_job, format_ms
from traces.synthetic import LayeredShape, layered_job

SVG = "{http://www.w3.org/2000/svg}"


def words(path: Path) -> set[str]:
    root = ET.parse(path).getroot()  # noqa: S314 -- a file that we have just written
    return {"".join(element.itertext()).strip() for element in root.iter(f"{SVG}text")}


def test_an_svg_shows_every_stage_with_its_figures(tmp_path: Path) -> None:
    job = next(job for job in load_trace("tpch-like").jobs if len(job.stages) == 18)
    draw_job(job, tmp_path / "job.svg")
    shown = words(tmp_path / "job.svg")
    assert {stage.name for stage in job.stages} <= shown
    assert f"{job.stages[0].num_tasks} tasks of {format_ms(job.stages[0].mean_ms)}" in shown
    assert job.name in shown
    assert any(text.startswith("18 stages") for text in shown)


def test_equal_jobs_give_equal_files(tmp_path: Path) -> None:
    """No date and no random ids, so that drawings can be compared and kept in version control."""
    for name in ("one.svg", "two.svg"):
        draw_job(chain("c", (1, 2)), tmp_path / name)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


def test_names_are_shown_as_they_are(tmp_path: Path) -> None:
    """Dollar signs are no formula, angle brackets no markup, long names are cut."""
    stages = (Stage.fixed("$\\frac{$", 1, 1.0), Stage.fixed("<b> & " + "x" * 50, 1, 1.0, [0]))
    draw_job(Job("a $ b $", stages), tmp_path / "job.svg")
    shown = words(tmp_path / "job.svg")
    assert {"$\\frac{$", "a $ b $"} <= shown
    assert any(text.startswith("<b> & xx") and text.endswith("…") for text in shown)


@settings(max_examples=25)
@given(seed=st.integers(0, 2**32 - 1), skips=st.lists(st.tuples(st.integers(0), st.integers(0))))
def test_boxes_do_not_overlap_and_edges_go_right(seed: int, skips: list[tuple[int, int]]) -> None:
    base = layered_job("j", np.random.default_rng(seed), LayeredShape(stages=(1, 20)))
    parents = [set(stage.parents) for stage in base.stages]
    for edge, other in skips:
        above, below = sorted((edge % len(parents), other % len(parents)))
        if above != below:
            parents[below].add(above)
    job = Job("j", tuple(Stage.fixed(f"s{i}", 1, 1.0, sorted(p)) for i, p in enumerate(parents)))
    chains = _chains(job)
    height = _heights(chains)
    assert sorted(node.stage for node in height if node.stage is not None) == list(
        range(len(parents))
    )
    for nodes in chains:
        assert [node.column for node in nodes] == list(
            range(nodes[0].column, nodes[0].column + len(nodes))
        )
    boxes = [node for node in height if node.stage is not None]
    for one_box, other_box in combinations(boxes, 2):
        if one_box.column == other_box.column:
            assert abs(height[one_box] - height[other_box]) > 0.62


def test_what_cannot_be_drawn_is_refused_and_leaves_no_file(tmp_path: Path) -> None:
    job = chain("c", (1,))
    with pytest.raises(TraceError, match=r"suffix '\.pdf' is none of \.svg, \.png"):
        draw_job(job, tmp_path / "job.pdf")
    with pytest.raises(TraceError, match="cannot write"):
        draw_job(job, tmp_path / "none" / "job.svg")
    with pytest.raises(TraceError, match=f"{MAX_STAGES + 1} stages, at most {MAX_STAGES}"):
        draw_job(chain("long", (1,) * (MAX_STAGES + 1)), tmp_path / "job.svg")
    assert list(tmp_path.iterdir()) == []
