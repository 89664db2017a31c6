from .evaluation import EvaluationConfig as EvaluationConfig
from .evaluation import Report as Report
from .evaluation import evaluate as evaluate
from .policies import HEURISTICS as HEURISTICS
from .policies import Heuristic as Heuristic
from .policies import PolicyError as PolicyError
from .policy import Policy as Policy

__all__ = [
    "EvaluationConfig",
    "evaluate",
    "Report",
    "Policy",
    "Heuristic",
    "HEURISTICS",
    "PolicyError",
]
