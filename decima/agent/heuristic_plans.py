"""`HeuristicPlans`: a heuristic's choices of one round, as a plan of the network's form."""

from __future__ import annotations

import numpy as np

from decima.agent.heuristic_plan_kernels import Round, label
from decima.agent.plans import Plans
from decima.agent.tables import Legal
from decima.registry import Heuristic
from spark_sim.setup import copied
from spark_sim.tables import State, Table
from traces.arrays import TraceArrays
from traces.numbers import Int64


class HeuristicPlans:
    """Plans of one heuristic: labels of an imitation."""

    def __init__(self, name: str, trace: TraceArrays, classes: Table) -> None:
        self._compiled = Heuristic(name).compiled(trace, classes)

    def write(self, state: State, legal: Legal, own: Int64, plans: Plans, row: int) -> int:
        """Replace plan `row` by that of the heuristic; `own` (O,) are the stages of `legal` in
        `state`. Returns the number of entries that the round uses; 0 where the network lacks the
        heuristic's first choice, and the plan is void.
        """
        return int(label(copied(state), *self._compiled, _round(plans, row, legal, own)))


def _round(of: Plans, row: int, legal: Legal, own: Int64) -> Round:
    """Return views of one decision's rows."""
    decision = int(of.decision[row])
    first, last = int(legal.open_ptr[decision]), int(legal.open_ptr[decision + 1])
    first_job, last_job = int(legal.job_ptr[decision]), int(legal.job_ptr[decision + 1])
    begin, end = int(of.ptr[row]), int(of.ptr[row + 1])
    jobs = slice(int(of.job_ptr[row]), int(of.job_ptr[row + 1]))
    return Round(
        own[first:last],
        legal.open_job[first:last] - first_job,
        legal.limit,
        legal.limit_ptr[first_job : last_job + 1],
        legal.kind,
        legal.kind_ptr[first : last + 1],
        np.empty(last_job - first_job, np.int64),
        np.empty(last - first, np.bool_),
        of.order[begin:end],
        of.limit[jobs],
        of.kind[begin:end],
    )
