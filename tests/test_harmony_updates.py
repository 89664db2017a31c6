"""Periodic updates: what is learned from, what stays, and how it is compared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from decima.rl.errors import StudyError
from harmony.models import load_model, new_network
from harmony.updating import rows_of, use
from tests.harmony_clusters import TINY, save_model
from tests.studies import HARMONY

CONFIG = replace(HARMONY.training, imitation=0)
QUICK = ("replay=40", "learning_rate=0.01", "final_learning_rate=0.01")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A policy that has learned nothing."""
    path = tmp_path / "model.safetensors"
    save_model(path, CONFIG, new_network(CONFIG.size, 3).state_dict(), {})
    return path


def test_updates_begin_after_the_first_period_and_repeat_themselves(
    model: Path, tmp_path: Path
) -> None:
    """Both play the first period alike; the policy after the last one is written."""
    out = tmp_path / "updated.safetensors"

    def figures(output: Path | None = None) -> list[list[list[float]]]:
        periods = use([model], TINY, periods=3, sequences=3, seed=1, changes=QUICK, output=output)
        return [[weights.tolist() for weights in period] for period in periods]

    first = figures(out)
    assert first[0][0] == first[0][1]
    assert first == figures()
    before, after = load_model(model).network, load_model(out)
    assert after.card == {"iterations": 3}
    assert after.config.cluster == TINY
    moved = [
        not np.array_equal(weights.detach(), two.detach())
        for weights, two in zip(before.parameters(), after.network.parameters(), strict=True)
    ]
    assert any(moved)


def test_a_rate_of_nearly_nothing_changes_nothing(model: Path) -> None:
    """The comparison is paired: the same jobs, so equal policies differ by 0."""
    changes = ("learning_rate=1e-30", "final_learning_rate=1e-30", "replay=40")
    periods = use([model, model], TINY, periods=2, sequences=3, seed=1, changes=changes)
    rows = list(rows_of(periods))
    assert [row[0] for row in rows] == ["period", "1", "2", "2 to 2"]
    assert all(row[1] == row[2] and row[3].startswith("+0.0 %") for row in rows[1:])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ("size.width=32", "updates do not change the size"),
        ('world="model"', "updates are rewarded by the cluster"),
        ("colour=1", "unknown setting colour"),
        ("cluster.jobs=0", "jobs is 0"),
    ],
)
def test_a_setting_that_updates_cannot_have_is_refused(
    model: Path, changes: str, words: str
) -> None:
    result = HARMONY.run("update", str(model), "--set", changes)
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert words in result.stderr


def test_one_output_is_for_one_model(model: Path, tmp_path: Path) -> None:
    periods = use([model, model], TINY, periods=1, sequences=2, seed=0, output=tmp_path / "x")
    with pytest.raises(StudyError, match="one model is written, but 2 are updated"):
        next(periods)
