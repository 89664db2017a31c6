"""What all commands share: help, completion, how Ctrl-C ends, the nearest name to a wrong one."""

from __future__ import annotations

import importlib
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import click
import pytest
from click.testing import CliRunner

from decima.cli.main import SUBCOMMANDS
from decima.registry import Heuristic
from decima.rl import entry
from decima.spark.trial import TrialConfig
from decima.training.config import read_config
from spark_sim import Protocol
from tests.commands import (
    PROGRAMS,
    below,
    command_at,
    decima,
    every_command,
    parsed,
    python,
    succeeded,
)
from traces import list_builtin, load_trace

EVERY = [(name, words) for name, program in PROGRAMS.items() for words in every_command(program)]
IDS = [" ".join((name, *words)) for name, words in EVERY]


@pytest.mark.parametrize(("program", "words"), EVERY, ids=IDS)
def test_h_is_help_everywhere(program: str, words: tuple[str, ...]) -> None:
    short, long = (
        CliRunner().invoke(PROGRAMS[program], [*words, option]) for option in ("-h", "--help")
    )
    assert (short.exit_code, short.output) == (0, long.output)
    assert short.output.startswith("Usage: ")


@pytest.mark.parametrize(
    "words", list(every_command(PROGRAMS["decima"])), ids=lambda words: " ".join(words) or "decima"
)
def test_help_ends_with_an_example_that_the_command_takes(words: tuple[str, ...]) -> None:
    """It calls this command, or one below it, with arguments and options that it has."""
    result = succeeded(decima(*words, "--help"))
    *_, heading, example = result.output.rstrip().splitlines()
    assert heading.strip() == "Example:"
    assert tuple(shlex.split(example)[1 : len(words) + 1]) == words
    values = parsed(example)
    if values.get("job") is not None and values.get("trace") in list_builtin():
        assert load_trace(values["trace"]).job(values["job"]).name == values["job"]


def test_help_loads_nothing_heavy() -> None:
    """`decima --help` answers before numba, torch or Arrow could be imported."""
    code = (
        "import sys; from click.testing import CliRunner; from decima.cli.main import main; "
        "assert CliRunner().invoke(main, ['--help']).exit_code == 0; "
        "print(sorted({'numba', 'torch', 'pyarrow', 'numpy'} & set(sys.modules)))"
    )
    output = python("-c", code)
    assert output == "[]\n"


def test_every_command_has_a_line_in_the_help() -> None:
    help_text = decima("--help").output
    assert set(below(PROGRAMS["decima"])) == set(SUBCOMMANDS)
    for name, line in SUBCOMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(line)}$", help_text, re.MULTILINE)


def test_a_shell_completes_subcommands_and_options() -> None:
    """As docs and README say, through click's own completion."""
    for typed, expected in (
        ("decima tra", {"plain,traces", "plain,train"}),
        ("decima tune --pol", {"plain,--policy"}),
    ):
        words = {"COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}
        asked = {"_DECIMA_COMPLETE": "bash_complete", **words}
        result = CliRunner().invoke(PROGRAMS["decima"], [], prog_name="decima", env=asked)
        assert set(result.output.split()) == expected


# --- Ctrl-C --------------------------------------------------------------------------------------


def interrupted(*_arguments: Any, **_named: Any) -> NoReturn:
    raise KeyboardInterrupt


@pytest.mark.parametrize(("program", "words"), EVERY, ids=IDS)
def test_ctrl_c_is_one_line_and_exit_code_130(
    program: str, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = command_at(program, words)
    if isinstance(command, click.Group):
        pytest.skip("a group does nothing itself")
    monkeypatch.setattr(command, "invoke", interrupted)
    monkeypatch.setattr(command, "parse_args", lambda _context, _arguments: [])
    result = CliRunner().invoke(PROGRAMS[program], words)
    assert (result.exit_code, result.stdout, result.stderr) == (130, "", "interrupted\n")


@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
@pytest.mark.parametrize("program", PROGRAMS)
def test_ctrl_c_while_packages_load_is_one_line(program: str) -> None:
    """While a module is imported that takes for ever."""
    code = (
        f"import signal, time, {program}.__main__, decima.rl.entry as entry\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a shell may ignore it
        "slow = lambda _: (print('on', flush=True), time.sleep(60))\n"
        "entry.importlib.import_module = slow\n"
        f"{program}.__main__.main()\n"
    )
    with subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=30)
    assert (process.returncode, told) == (130, "interrupted\n")


def test_ctrl_c_while_torch_loads_waits_until_it_has_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exception in the middle would abort the process, or be lost."""
    (tmp_path / "stand_in.py").write_text(
        "import pathlib, signal\nsignal.raise_signal(signal.SIGINT)\n"
        "(pathlib.Path(__file__).parent / 'loaded').touch()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(entry, "_PACKAGE", "stand_in")
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    entry.keep_interrupts_while_torch_loads()
    of_tests = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may ignore it
    before = signal.getsignal(signal.SIGINT)
    try:
        with pytest.raises(KeyboardInterrupt):
            importlib.import_module("stand_in")
        assert signal.getsignal(signal.SIGINT) is before
        assert (tmp_path / "loaded").exists()
    finally:
        signal.signal(signal.SIGINT, of_tests)
        sys.modules.pop("stand_in", None)


# --- the nearest name ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "near"),
    [
        ("horizon", "credit.horizon"),
        ("credit.horizn", "credit.horizon"),
        ("reinforce.horizon", "credit.horizon"),
        ("credit.objective", "objective"),
        ("learning-rate", "imitate.learning_rate"),
        ("Seed", "seed"),
        ("credits.horizons", "credit"),
    ],
)
def test_an_unknown_setting_comes_with_the_nearest(asked: str, near: str) -> None:
    with pytest.raises(ValueError, match="unknown setting") as refused:
        read_config(None, (f"{asked}=makespan",))
    assert f" (did you mean {near}?); there are" in str(refused.value)


@pytest.mark.parametrize(
    ("program", "arguments", "near"),
    [
        ("deeprm", ("train", "--set", "objectiv=makespan"), "objective"),
        ("deeprm", ("train", "--set", "horizon=9"), "cluster.horizon"),
        ("harmony", ("train", "--set", "seeds=1"), "seed"),
        ("deeprm", ("study", "--only", "paper-70-00"), "paper-70-0"),
    ],
)
def test_deeprm_and_harmony_suggest_too(
    program: str, arguments: tuple[str, ...], near: str, tmp_path: Path
) -> None:
    out = ("--out", str(tmp_path / "run"))
    result = CliRunner().invoke(PROGRAMS[program], [*arguments, *out])
    assert result.exit_code == 2, result.output
    assert f"(did you mean {near}?)" in result.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("refused", "near"),
    [
        (lambda: Heuristic("strictfair"), "strict_fair"),
        (lambda: Heuristic("Decima"), "decima"),
        (lambda: Heuristic("tuned_srw", {"work_pow": 1.0}), "work_power"),
        (lambda: TrialConfig(("spark-fiffo",)), "spark-fifo"),
        (lambda: Protocol.parse("sesion"), "session"),
        (lambda: load_trace("tcph"), "tpch"),
        (lambda: load_trace("tpch").job("sf2/q55"), "sf2/q"),
    ],
)
def test_other_names_are_suggested(refused: Callable[[], Any], near: str) -> None:
    with pytest.raises(ValueError, match=r"\(did you mean ") as error:
        refused()
    assert f"(did you mean {near}" in str(error.value)
