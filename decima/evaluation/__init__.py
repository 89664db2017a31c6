"""Comparing policies on the same arrival sequences."""

from decima.evaluation.config import ARRIVAL_PATTERNS, EvaluationConfig
from decima.evaluation.report import PolicyReport, Report
from decima.evaluation.runner import evaluate, simulate

__all__ = ["ARRIVAL_PATTERNS", "EvaluationConfig", "PolicyReport", "Report", "evaluate", "simulate"]
