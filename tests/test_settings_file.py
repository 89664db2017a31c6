"""Files of settings: what they mean, and what is wrong with them in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from decima.errors import ConfigError
from decima.evaluation.config import EvaluationConfig, gap_at, read_settings
from tests.commands import raises_one_line
from tests.stories import job, stage
from traces import Trace, load_trace
from traces.parquet import write_trace

ROOT = Path(__file__).parents[1]


def written(folder: Path, text: str) -> Path:
    path = folder / "settings.toml"
    path.write_text(text)
    return path


def test_top_keys_hold_for_all_and_a_setting_overrides_them(tmp_path: Path) -> None:
    """Order is kept; a whole number serves where a fraction may stand."""
    path = written(
        tmp_path,
        """
        jobs = 30
        interarrival_s = 20
        [[setting]]
        executors = 10
        [[setting]]
        jobs = 5
        protocol = "session"
        """,
    )
    assert read_settings(path) == (
        EvaluationConfig(jobs=30, interarrival_s=20.0, executors=10),
        EvaluationConfig(jobs=5, interarrival_s=20.0, protocol="session"),
    )


def test_a_load_is_work_over_what_executors_can_do(tmp_path: Path) -> None:
    """Jobs of 4 s and 8 s of work, 6 s on average: at load 0.5 two executors get one every 6 s."""
    jobs = [job("a", stage("x", 4, 1000)), job("b", stage("x", 4, 1000), stage("y", 2, 2000, [0]))]
    trace = tmp_path / "two.parquet"
    write_trace(Trace("two", tuple(jobs)), trace)
    assert gap_at(str(trace), 2, 0.5) == pytest.approx(6.0)
    text = f'trace = "{trace}"\n[[setting]]\nexecutors = 4\nload = 1'
    (read_setting,) = read_settings(written(tmp_path, text))
    assert read_setting.interarrival_s == pytest.approx(6.0 / 4)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "there is no [[setting]]"),
        ("setting = 3", "there is no [[setting]]"),
        ("setting = [3]", "there is no [[setting]]"),
        ("[[setting", "settings.toml: "),
        ("[[setting]]\ncolour = 1", "setting 1: unknown setting colour; there are trace, policies"),
        (
            "[[setting]]\n[[setting]]\nexecutors = 0",
            "setting 2: settings: number of executors must lie in",
        ),
        ("[[setting]]\nexecutors = 2.5", "executors is 2.5: a whole number is needed"),
        ("[[setting]]\nload = -1", "load must be a positive number, got -1"),
        ("[[setting]]\nload = nan", "load must be a positive number, got nan"),
        ("[[setting]]\nload = 1\ninterarrival_s = 3", "give one"),
        ("[[setting]]\nseed = 1", "seed belongs to the command"),
        ("[[setting]]\ntrace = 'none.parquet'\nload = 1", "no such file"),
    ],
)
def test_what_is_wrong_is_one_line(tmp_path: Path, text: str, part: str) -> None:
    path = written(tmp_path, text)
    with raises_one_line(ConfigError) as caught:
        read_settings(path)
    assert part in str(caught.value)
    assert str(path) in str(caught.value)


def test_the_settings_of_the_shipped_rule_can_be_read() -> None:
    settings = read_settings(ROOT / "docs" / "examples" / "many-settings.toml")
    assert len(settings) == len({str(config) for config in settings}) == 30
    assert {config.protocol for config in settings} == {"executors", "session"}
    for name in {setting.trace for setting in settings}:
        load_trace(name)
