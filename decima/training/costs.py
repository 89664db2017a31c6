r"""Costs of an objective per stretch of time: rewards computed from arrivals and completions.

With c_j the completion of job j, a_j its arrival, the cost up to time t is

.. math::
    C(t) = \sum_j [\min(t, c_j) - a_j]_+ \;(avg\_jct), \qquad
    C(t) = \sum_j [\min(t, c_j) - a_j]_+^2 / U \;(rms\_jct), \qquad
    C(t) = |\{s < t : \text{a job is in the system}\}| \;(makespan)

and the reward of a decision is C at the decision minus C at the next one, or at the end. Jobs that
are not complete count as long as they are in the system, so leaving them undone never pays.
"""

from __future__ import annotations

import numpy as np

from spark_sim.tables import State
from traces.numbers import MS_PER_S, Float64

TAIL_UNIT_S = 100.0
"""U: a job of this age costs as much per second as two under "avg_jct\""""


def cost_at(objective: str, state: State, time_s: Float64) -> Float64:
    """(M,) C at the (M,) times of a run whose final tables are `state`."""
    jobs = state.jobs[: int(state.clock[0]["num_jobs"])]
    arrival_s = jobs["arrival_ms"] / MS_PER_S
    completion_s = np.where(
        np.isnan(jobs["completion_ms"]), np.inf, jobs["completion_ms"] / MS_PER_S
    )
    if objective == "makespan":
        return _time_with_jobs(arrival_s, completion_s, time_s)
    age_s = np.minimum(time_s[:, None], completion_s) - arrival_s
    np.maximum(age_s, 0.0, out=age_s)
    if objective == "rms_jct":
        age_s *= age_s / TAIL_UNIT_S
    cost: Float64 = age_s.sum(axis=1)
    return cost


def _time_with_jobs(arrival_s: Float64, completion_s: Float64, time_s: Float64) -> Float64:
    """(M,) how long before each time the system held a job."""
    latest_s = np.maximum.accumulate(completion_s)  # jobs come in the order of arrival
    previous_s = np.concatenate([[0.0], latest_s[:-1]])
    begin_s = np.maximum(arrival_s, previous_s)
    span_s = np.minimum(time_s[:, None], latest_s) - begin_s
    found: Float64 = np.maximum(span_s, 0.0).sum(axis=1)
    return found
