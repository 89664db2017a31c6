"""Advice from event logs: other policies, other numbers of executors. See `docs/whatif.md`."""

from decima.whatif.settings import WhatIfSettings
from decima.whatif.study import PolicyResult, SizeResult, WhatIf, what_if

__all__ = ["PolicyResult", "SizeResult", "WhatIf", "WhatIfSettings", "what_if"]
