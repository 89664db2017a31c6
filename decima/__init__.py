"""Schedulers for Spark-style DAG jobs: baselines, comparison, tuning."""

import decima_packages

decima_packages.check("decima")

from decima.evaluation import EvaluationConfig, Report, evaluate
from decima.policies import HEURISTICS, Heuristic, PolicyError
from decima.policy import Policy

__all__ = [
    "EvaluationConfig",
    "evaluate",
    "Report",
    "Policy",
    "Heuristic",
    "HEURISTICS",
    "PolicyError",
]
