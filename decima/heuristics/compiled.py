"""The types that compiled heuristics share."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
"""(P,) the parameters of a heuristic, in the order its module names them"""

Scratch = NDArray[np.uint64]
"""(2,) key and counter of a randomised heuristic; zero and unused otherwise"""
