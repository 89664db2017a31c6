"""Comparing policies on the same arrival sequences."""

from decima.evaluation.config import ARRIVALS, EvaluationConfig
from decima.evaluation.report import PolicyReport, Report
from decima.evaluation.runner import evaluate, simulate

__all__ = ["ARRIVALS", "EvaluationConfig", "PolicyReport", "Report", "evaluate", "simulate"]
