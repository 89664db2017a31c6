"""Types of arrays and units of time, by one name in all packages."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Float64 = NDArray[np.float64]
Float32 = NDArray[np.float32]
Int64 = NDArray[np.int64]
Int32 = NDArray[np.int32]
Integers = NDArray[np.signedinteger[Any]]
"""of 32 bits in columns that were read, where all fit"""
Bool = NDArray[np.bool_]

MS_PER_S = 1000.0
S_PER_MINUTE = 60.0
