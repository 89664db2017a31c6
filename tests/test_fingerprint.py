"""What executors are compared by: versions, and what the kernels and the network compute."""

from __future__ import annotations

import numpy as np
import pytest

from decima.agent.columns import FEATURE_VERSION
from decima.fingerprint import digest, fingerprint, played, versions


@pytest.fixture(scope="module")
def numbers() -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.concatenate([*played()])


def test_the_same_machine_always_answers_the_same() -> None:
    """Names of what is compared, for messages; versions are part of it."""
    first = fingerprint()
    assert first["feature version"] == str(FEATURE_VERSION)
    assert {"decima-scheduler", "Python", "numpy", "numba", "torch", "computed"} <= first.keys()
    assert versions().items() <= first.items()
    fingerprint.cache_clear()
    assert fingerprint() == first


def test_last_bits_do_not_matter_and_anything_more_does(
    numbers: np.ndarray[tuple[int], np.dtype[np.float64]],
) -> None:
    """Other processors round otherwise; another version of the code computes otherwise."""
    assert np.isfinite(numbers).all()
    for factor in (1 + 1e-8, 1 - 1e-8):
        assert digest(numbers * factor) == digest(numbers)
    for index in range(len(numbers)):
        other = numbers.copy()
        other[index] += 0.02
        assert digest(other) != digest(numbers)
