"""The range of workloads that the shipped network was trained on, and the note outside of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from decima import EvaluationConfig
from decima.agent.model import load_model
from decima.evaluation.config import setting_of
from decima.evaluation.notes import TRAINED, properties, unlike_training
from decima.policy_names import SHIPPED_MODEL, model_path
from tests.commands import Command, succeeded
from traces import Job, Stage, Trace, load_trace

CONFIG = EvaluationConfig(trace="tpch", executors=50, interarrival_s=25.0)


def test_the_range_is_that_of_the_settings_in_the_models_card() -> None:
    """Executors and loads of all settings, whose traces take long to make; most of a tenth."""
    settings = load_model(model_path(SHIPPED_MODEL)).card["config"]["workload"]["settings"]
    assert len(settings) > 400
    loads = [setting["load"] for setting in settings if "load" in setting]
    bounds = np.quantile([values["executors"] for values in settings], [0.02, 0.98])
    assert bounds == pytest.approx(TRAINED["executors"], rel=2e-3)
    assert np.quantile(loads, [0.02, 0.98]) == pytest.approx(TRAINED["load"])
    few = settings[::40]
    outside = [
        unlike_training(setting_of(values), load_trace(str(values["trace"]))) for values in few
    ]
    assert sum(map(bool, outside)) <= len(few) // 4


def test_properties_worked_out_by_hand() -> None:
    """Two jobs of 4 tasks of 1 s and 2 of 4 s: 6 s of work each on average, on 2 executors."""
    jobs = (Job("a", (Stage.fixed("s", 4, 1000.0),)), Job("b", (Stage.fixed("s", 2, 4000.0),)))
    config = replace(CONFIG, executors=2, interarrival_s=6.0, moving_delay_s=4.0)
    values = properties(config, Trace("two", jobs))
    assert values == {
        "executors": 2.0,
        "load": 0.5,
        "tasks of a job": 3.0,
        "seconds of a task": 2.0,
        "tasks as long as a move": 2.0,
    }
    assert "load" not in properties(replace(config, arrivals="batch"), Trace("two", jobs))
    alone = properties(replace(config, protocol="session"), Trace("two", jobs))
    assert "tasks as long as a move" not in alone


def test_what_is_outside_is_named_with_its_range() -> None:
    """A cluster that is nearly idle; not the default stream."""
    assert unlike_training(CONFIG, load_trace("tpch")) == []
    idle = replace(CONFIG, trace="any-dag-77", executors=30, interarrival_s=30.0)
    words = unlike_training(idle, load_trace("any-dag-77"))
    assert any(word.startswith("load 0.015 (in training 0.05 to 1.1") for word in words)


def test_evaluate_says_it_of_the_shipped_network_only(run: Command) -> None:
    """Jobs of six tasks on four executors."""
    outside = "decima was hardly trained for such a workload"
    result = succeeded(run("--policies", "strict_fair,decima"))
    assert outside in result.stdout
    assert "tasks of a job" in result.stdout
    assert outside not in run("--policies", "strict_fair,fifo").stdout
