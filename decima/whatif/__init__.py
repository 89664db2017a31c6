"""Advice from event logs: other policies, other numbers of executors. See `docs/whatif.md`."""

from decima.whatif.results import ApplicationsWhatIf, Result, SizeResult, WhatIf
from decima.whatif.settings import ApplicationsSettings, WhatIfSettings
from decima.whatif.study import applications_what_if, what_if

__all__ = [
    "ApplicationsSettings",
    "ApplicationsWhatIf",
    "Result",
    "SizeResult",
    "WhatIf",
    "WhatIfSettings",
    "applications_what_if",
    "what_if",
]
