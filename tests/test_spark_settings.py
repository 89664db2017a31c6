"""What `attach` is told and cannot use is one line, before it looks at the session."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from decima.spark import AttachError, AutoSettings, Guard, attach
from decima.spark.priors import load_priors
from traces import Job, Stage, Trace, write_trace

NO_SESSION = "neither a SparkSession nor a SparkContext"


def said(**settings: Any) -> str:
    """Why `attach` refuses to act on what is no session."""
    with pytest.raises(AttachError) as refused:
        attach(object(), "strict_fair", **settings)
    return str(refused.value)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        *(("lapse_s", value) for value in (-1, 0, "x", math.nan, math.inf, None, True, 0.0001)),
        *(("hold_s", value) for value in (-1, "x", math.nan, math.inf, None)),
        *(("ready_s", value) for value in (-1, "x", math.nan, math.inf)),
    ],
)
def test_a_time_that_makes_no_sense_is_refused(setting: str, value: Any) -> None:
    line = said(**{setting: value})
    assert line.startswith(f"{setting} must be a number from ")
    most = {"lapse_s": "3,600", "hold_s": "60", "ready_s": "604,800"}[setting]
    assert line.endswith(f" to {most}, got {value!r}")


def test_pools_are_kept_or_ignored() -> None:
    assert said(pools="maybe") == "pools 'maybe': there are keep, ignore"
    assert NO_SESSION in said(pools="ignore")


@pytest.mark.parametrize(
    "settings",
    [{"hold_s": 0}, {"ready_s": 0.0}, {"ready_s": None}, {"lapse_s": np.float32(0.5)}, {}],
)
def test_times_that_mean_something_are_taken(settings: dict[str, Any]) -> None:
    """No hold: a new stage starts without a decision. Not to wait for a model: ready or refused."""
    assert NO_SESSION in said(**settings)


@pytest.mark.parametrize(
    ("kind", "values", "line"),
    [
        (Guard, {"idle_s": "5"}, "guard: idle_s must be a number from 0.1 to 604,800, got '5'"),
        (Guard, {"failures": math.nan},
         "guard: failures must be a whole number of 1 or more, got nan"),
        (AutoSettings, {"every_s": "x"}, "auto: every_s must be a number above 0, got 'x'"),
        (AutoSettings, {"window_s": None}, "auto: window_s must be a number above 0, got None"),
        (AutoSettings, {"least_jobs": "3"},
         "auto: least_jobs must be a whole number of 2 or more, got '3'"),
        (AutoSettings, {"least_jobs": 2.5},
         "auto: least_jobs must be a whole number of 2 or more, got 2.5"),
        (AutoSettings, {"candidates": "decima"},
         "auto: candidates must be several names, got 'decima': write ('decima',)"),
    ],
)  # fmt: skip
def test_settings_name_themselves_the_value_and_the_rule(
    kind: type, values: dict[str, Any], line: str
) -> None:
    with pytest.raises(AttachError) as refused:
        kind(**values)
    assert str(refused.value) == line


def test_settings_of_another_kind_are_refused() -> None:
    assert said(guard=0.5) == "guard must be a Guard, got 0.5"
    with pytest.raises(AttachError, match="priors must be a Trace or the path of a trace file, go"):
        load_priors(5)  # type: ignore[arg-type]


def test_priors_may_be_a_path(tmp_path: Path) -> None:
    """As `parameters` and a policy's model may; what cannot be read is one line."""
    path = tmp_path / "mine.parquet"
    trace = Trace("mine", (Job("q", (Stage.fixed("s", 4, 1_000.0),)),))
    write_trace(trace, path)
    for priors in (path, str(path)):
        found = load_priors(priors)
        assert found is not None
        assert [job.name for job in found.jobs] == ["q"]
        assert NO_SESSION in said(priors=priors)
    assert load_priors(trace) is trace
    assert said(priors=tmp_path / "no.parquet").startswith(f"priors: {tmp_path / 'no.parquet'}: no")
    damaged = tmp_path / "damaged.parquet"
    damaged.write_text("x")
    assert said(priors=str(damaged)).startswith(f"priors: {damaged}: ")


def test_a_model_file_that_is_not_there_is_called_so(tmp_path: Path) -> None:
    path = tmp_path / "no.safetensors"
    with pytest.raises(AttachError, match=rf"^{path}: no such file$"):
        attach(object(), str(path))
    path.write_text("x")
    with pytest.raises(AttachError, match=rf"^{path}: not a model file, or damaged: "):
        attach(object(), path.as_posix())
