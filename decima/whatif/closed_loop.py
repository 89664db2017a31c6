"""Do jobs come when other jobs end? So they do where clients wait for their jobs.

A comparison of policies on recorded arrivals is not valid then: had a job ended sooner, its
client's next one would have come sooner, too. With a fixed number of clients and slots that are
always busy, no order changes the average JCT (Little's law).
"""

from __future__ import annotations

import math

import numpy as np

from traces.numbers import Float64

MOSTLY = 0.5
"""share from which jobs count as coming from clients that wait for them"""
_FEWEST = 3
"""least number of jobs after the first end for a finding"""
_SOON_MS = 1000.0
_SOON = 0.25
# "Right after" is within a second and within a quarter of the mean time between two ends. Of jobs
# that come by themselves that many follow an end by chance: a share 1 - exp(-0.25).


def followers_share(arrival_ms: Float64, end_ms: Float64, work_ms: Float64) -> float:
    """Share of the jobs that came right after another had ended, less what is chance: 0 to 1.

    Args:
        arrival_ms: (K,) of the jobs, in any order.
        end_ms: (K,) of the same jobs; NaN for those that have not ended.
        work_ms: (K,) of the same jobs, above 0.

    Returns:
        of the jobs that came after the first end, or of their work, whichever is less: neither a
        stream of small batches beside large jobs nor one large job makes it many. 0 where there are
        no such jobs.
    """
    ends_ms = np.sort(end_ms[~np.isnan(end_ms)])
    if len(ends_ms) < 2:
        return 0.0
    is_later = arrival_ms > ends_ms[0]
    later_ms = arrival_ms[is_later]
    if len(later_ms) < _FEWEST:
        return 0.0
    mean_gap_ms = float(ends_ms[-1] - ends_ms[0]) / (len(ends_ms) - 1)
    if mean_gap_ms <= 0.0:
        return 0.0
    soon_ms = min(_SOON_MS, _SOON * mean_gap_ms)
    since_ms = later_ms - ends_ms[np.searchsorted(ends_ms, later_ms, side="right") - 1]
    follows = since_ms <= soon_ms
    found = min(float(follows.mean()), float(np.average(follows, weights=work_ms[is_later])))
    by_chance = 1.0 - math.exp(-soon_ms / mean_gap_ms)
    return max(0.0, (found - by_chance) / (1.0 - by_chance))
