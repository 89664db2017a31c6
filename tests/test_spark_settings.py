"""Settings of `attach` that make no sense are refused in one line, before it needs a session."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from decima.spark import AttachError, AutoSettings, Guard, attach
from decima.spark.decision_log import DecisionLogFiles
from decima.spark.priors import load_priors
from traces import Job, Stage, Trace, write_trace

NO_SESSION = "neither a SparkSession nor a SparkContext"


def refusal(**settings: Any) -> str:
    """Why `attach` refuses to act on what is no session."""
    with pytest.raises(AttachError) as refused:
        attach(object(), "strict_fair", **settings)
    return str(refused.value)


@pytest.mark.parametrize(
    ("setting", "value", "rule"),
    [
        *(("lapse_s", value, "to 3,600")
          for value in (-1, 0, "x", math.nan, math.inf, None, True, 0.0001)),
        *(("hold_s", value, "to 60") for value in (-1, "x", math.nan, math.inf, None)),
        *(("ready_s", value, "to 604,800") for value in (-1, "x", math.nan, math.inf)),
        ("pools", "maybe", "keep, ignore"),
        ("guard", 0.5, "must be a Guard"),
        *((f"{name}_port", port, "0 to 65535")
          for name in ("metrics", "dashboard") for port in (-1, 65_536, 80.0, "4050", True)),
    ],
)  # fmt: skip
def test_a_setting_that_makes_no_sense_is_refused(setting: str, value: Any, rule: str) -> None:
    line = refusal(**{setting: value})
    assert line.startswith(setting.removesuffix("_port"))
    assert repr(value) in line
    assert rule in line


@pytest.mark.parametrize(
    "settings",
    [
        {"hold_s": 0}, {"ready_s": 0.0}, {"ready_s": None}, {"lapse_s": np.float32(0.5)},
        {"pools": "ignore"}, {"metrics_port": 0, "dashboard_port": 65_535}, {},
    ],
)  # fmt: skip
def test_settings_that_mean_something_are_taken(settings: dict[str, Any]) -> None:
    """No hold: a new stage starts without a decision. Not to wait for a model: ready or refused."""
    assert NO_SESSION in refusal(**settings)


@pytest.mark.parametrize(
    ("kind", "values", "rule"),
    [
        (Guard, {"idle_s": "5"}, "a number from 0.1 to 604,800"),
        (Guard, {"failures": math.nan}, "a whole number of 1 or more"),
        (AutoSettings, {"every_s": 0}, "a number above 0"),
        (AutoSettings, {"window_s": None}, "a number above 0"),
        (AutoSettings, {"tolerance": math.nan}, "a number above 0"),
        (AutoSettings, {"least_jobs": 1}, "a whole number of 2 or more"),
        (AutoSettings, {"candidates": "decima"}, "('decima',)"),
        (DecisionLogFiles, {"path": Path("log"), "files": 1}, "a whole number of 2 or more"),
        (DecisionLogFiles, {"path": Path("log"), "max_bytes": 0}, "a whole number of 1 or more"),
    ],
)
def test_settings_name_themselves_the_value_and_the_rule(
    kind: type, values: dict[str, Any], rule: str
) -> None:
    with pytest.raises(AttachError) as refused:
        kind(**values)
    *_, (name, value) = values.items()
    owner = {Guard: "guard", AutoSettings: "auto", DecisionLogFiles: "decision log"}[kind]
    assert str(refused.value).startswith(f"{owner}: {name} must be ")
    assert f"got {value!r}" in str(refused.value)
    assert rule in str(refused.value)


def test_auto_needs_a_candidate() -> None:
    with pytest.raises(AttachError, match="auto: there is no candidate"):
        AutoSettings(candidates=())


def test_priors_may_be_a_trace_or_a_path(tmp_path: Path) -> None:
    """As `parameters` and a policy's model may; what cannot be read is one line."""
    path = tmp_path / "mine.parquet"
    trace = Trace("mine", (Job("q", (Stage.fixed("s", 4, 1_000.0),)),))
    write_trace(trace, path)
    for priors in (path, str(path)):
        loaded = load_priors(priors)
        assert loaded is not None
        assert [job.name for job in loaded.jobs] == ["q"]
        assert NO_SESSION in refusal(priors=priors)
    assert load_priors(trace) is trace
    with pytest.raises(AttachError, match="priors must be a Trace or the path of a trace file, go"):
        load_priors(5)  # type: ignore[arg-type]
    assert refusal(priors=tmp_path / "no.parquet").startswith(f"priors: {tmp_path}/no.parquet: no")
    damaged = tmp_path / "damaged.parquet"
    damaged.write_text("x")
    assert refusal(priors=str(damaged)).startswith(f"priors: {damaged}: ")


def test_a_model_file_that_is_not_there_is_called_so(tmp_path: Path) -> None:
    path = tmp_path / "no.safetensors"
    with pytest.raises(AttachError, match=rf"^{path}: no such file$"):
        attach(object(), str(path))
    path.write_text("x")
    with pytest.raises(AttachError, match=rf"^{path}: not a model file, or damaged: "):
        attach(object(), path.as_posix())
