"""Settings from TOML: whatever a file says, it is taken, or refused in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from decima.errors import ConfigError
from decima.training.config import config_from, read_config


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("seed = true", "seed is True: a whole number is needed"),
        ("seed = 1.0", "seed is 1.0: a whole number is needed"),
        ("seed = 1979-05-27", "seed is '1979-05-27': a whole number is needed"),
        ("seed = " + "9" * 5_000, "not TOML"),
        ("seed = 0x" + "f" * 5_000, "cannot be read"),
        ("seed = " + "9" * 400, "seed is 999"),
        ("[credit]\nhorizon = " + "9" * 400, "credit.horizon"),
        ("[credit]\nhorizon = inf", "credit.horizon is inf: a finite number is needed"),
        (
            "[reinforce]\nepochs = 3",
            "unknown setting reinforce.epochs (did you mean",
        ),
        (f"[reinforce]\n{'x' * 10**5} = 3", "unknown setting reinforce.xxx"),
        ("[network]\nhidden = [16.5]", "network.hidden.0 is 16.5: a whole number is needed"),
        ("[network]\nhidden = [1000000]", "layers of 1,024 units"),
        ("[network]\nhidden = [1000, 1000, 1000, 1000]", "parameters: at most"),
        ("[network]\nhead_hidden = []", "network: head_hidden"),
        ("network = []", "network is []: a section is needed"),
        (f'seed = "{"x" * 10**5}"', "seed is 'xxx"),
        ("seed = " + "[" * 5_000, "nested too deeply"),
        ("seed = '\x00'", "not TOML"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_in_one_short_line(
    text: str, part: str, tmp_path: Path
) -> None:
    """Types are not guessed, numbers of any length and depth are met, and little is echoed."""
    path = tmp_path / "my.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as refused:
        read_config(path)
    assert part in str(refused.value)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 600


@pytest.mark.parametrize("content", [b"\xff", None])
def test_a_file_that_is_no_text_is_named(content: bytes | None, tmp_path: Path) -> None:
    """Bytes that are not UTF-8; a folder."""
    path = tmp_path if content is None else tmp_path / "my.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match="cannot read" if content is None else "not UTF-8"):
        read_config(path)


def test_none_stands_for_what_toml_has_no_word_for() -> None:
    """For a setting that may be absent; a choice called "none" stays what it is."""
    changes = ("reinforce.max_kl=none", "credit.baseline=none", "validation.patience=3")
    config = read_config(None, changes)
    assert config.reinforce.max_kl is None
    assert config.credit.baseline == "none"
    assert config.validation.patience == 3
    assert config_from(config.to_json()) == config
