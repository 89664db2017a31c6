from .errors import PolicyError as PolicyError
from .evaluation import EvaluationConfig as EvaluationConfig
from .evaluation import Report as Report
from .evaluation import evaluate as evaluate
from .policy import Policy as Policy
from .registry import HEURISTICS as HEURISTICS
from .registry import Heuristic as Heuristic

__all__ = [
    "EvaluationConfig",
    "evaluate",
    "Report",
    "Policy",
    "Heuristic",
    "HEURISTICS",
    "PolicyError",
]
