"""`Auto`: choose the policy in force by simulations of the session's own jobs.

At first and every few minutes the jobs that were observed (before any were, those of the priors)
are played under each candidate and under Spark's own order, by a process of its own. The best
candidate is put in force where it is better than Spark's order for certain, else Spark's order is.
And where jobs take longer or shorter than was predicted for what ran, nothing that is predicted is
trusted: Spark's order is in force, and the policy continues in shadow.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from decima.registry import Parameters
from decima.spark.checks import check_above_zero, check_count
from decima.spark.decision_log import job_row, prior_rows
from decima.spark.errors import AttachError
from decima.spark.evaluator_process import EvaluatorError, EvaluatorProcess, Question
from decima.spark.jobs import LiveJobs
from decima.whatif.closed_loop import MOSTLY
from traces import Trace
from traces.numbers import MS_PER_S

LOG = logging.getLogger("decima.spark")

AUTO = "auto"
"""name of the policy that is chosen by simulation"""
MOST_JOBS = 300
"""the newest of a window are played"""
KNOWN_SHARE = 0.5
"""where earlier runs are found for fewer stages than this, durations count as unknown"""

Rows = Sequence[Mapping[str, Any]]
"""jobs, as `decision_log.job_row` has them"""


@dataclass(frozen=True)
class AutoSettings:
    """Settings of `policy="auto"`.

    Raises:
        AttachError: a value makes no sense.
    """

    candidates: tuple[str, ...] = ("strict_fair", "tuned_srw", "es_rule", "decima")
    """policies by name"""
    every_s: float = 600.0
    """between two comparisons"""
    window_s: float = 3_600.0
    """jobs that ended longer ago do not count"""
    least_jobs: int = 20
    """ended jobs needed before a comparison"""
    tolerance: float = 0.5
    """largest relative error of a prediction that is still trusted"""
    parameters: Mapping[str, Parameters] = field(default_factory=dict)
    """of candidates, where they are not those that the package ships"""

    def __post_init__(self) -> None:
        if not self.candidates:
            raise AttachError("auto: there is no candidate")
        if isinstance(self.candidates, str):  # its letters would be taken for names
            raise AttachError(
                f"auto: candidates must be several names, got {self.candidates!r}: write "
                f"({self.candidates!r},)"
            )
        for name in ("every_s", "window_s", "tolerance"):
            check_above_zero(f"auto: {name}", getattr(self, name))
        check_count("auto: least_jobs", self.least_jobs, 2)


class Choice(NamedTuple):
    """Policy in force, and the reason."""

    policy: str
    """by name; Spark's order by that which the simulator has: fifo or spark_fair"""
    is_shadow: bool
    """the policy decides, and Spark's order is in force"""
    why: str


class Auto:
    """Chooser of the policy in force, from verdicts on the session's own jobs."""

    def __init__(
        self,
        settings: AutoSettings,
        order: str,
        priors: Trace | None,
        evaluator: EvaluatorProcess,
        *,
        acts: bool = True,
    ) -> None:
        """Args:
        settings: how to choose.
        order: Spark's own, fifo or spark_fair.
        priors: earlier runs; None: the first verdict waits for jobs.
        evaluator: process that compares policies.
        acts: False in mode shadow: whatever is chosen, Spark's order runs.
        """
        self._settings = settings
        self._acts = acts
        self._order = order
        self._priors: Rows = [] if priors is None else prior_rows(priors)[-MOST_JOBS:]
        self._are_timed = priors is not None and all(
            job.arrival_ms is not None for job in priors.jobs
        )
        self._evaluator = evaluator
        self._asked: Future[dict[str, Any]] | None = None
        self._ended: deque[Mapping[str, Any]] = deque(maxlen=MOST_JOBS)
        self._next_s: float | None = None
        """when the next verdict is due; None as soon as there are enough jobs"""
        self._asked_of = order
        """what ran when it was asked"""
        self._is_left = True
        self._since_ms = 0
        self.choice = Choice(order, False, "nothing is known of this session yet")

    @property
    def is_spark_order(self) -> bool:
        """True if Spark's own order is in force."""
        return self.choice.is_shadow or self.choice.policy == self._order

    @property
    def _ran(self) -> str:
        """Name of the policy that ran since the last change."""
        return self._order if self._is_left or not self._acts else self.choice.policy

    def close(self) -> None:
        """Ask no more."""
        self._evaluator.close()

    def look(self, live: LiveJobs, now_s: float) -> Choice | None:
        """Take in the newest report; what is to be in force from now on, if that changes.

        Args:
            live: after its `update`.
            now_s: on any clock that does not go back.
        """
        self._ended.extend(job_row(job) for job in live.forgotten)
        if self._asked is not None:
            return self._take(self._asked, live) if self._asked.done() else None
        rows = self._rows(live, now_s)
        if rows is not None:
            self._asked_of = self._ran
            self._asked = self._evaluator.ask(self._question(rows, live))
            self._next_s = now_s + self._settings.every_s
        return None

    def give_up(self, why: str, live: LiveJobs) -> None:
        """Return to Spark's order until the next verdict, as the chosen policy cannot decide.

        Args:
            why: it cannot.
            live: after its `update`.
        """
        LOG.error("auto: %s instead of %s: %s", self._order, self.choice.policy, why)
        self.choice = Choice(self._order, False, f"{self.choice.policy}: {why}")
        self._since_ms = live.time_ms

    def note_left(self, is_left: bool, live: LiveJobs) -> None:
        """Note whether Spark's order is in force, as it also is until the chosen policy is ready.

        Args:
            is_left: from now on.
            live: after its `update`.
        """
        if is_left != self._is_left:
            self._is_left, self._since_ms = is_left, live.time_ms

    # --- asking ----------------------------------------------------------------------------------

    def _rows(self, live: LiveJobs, now_s: float) -> Rows | None:
        """Return the jobs to compare policies on, if it is time."""
        if live.slots == 0 or (self._next_s is not None and now_s < self._next_s):
            return None
        if self._priors:
            return self._priors
        oldest_ms = live.time_ms - self._settings.window_s * MS_PER_S
        ended = [row for row in self._ended if (row["completion_ms"] or 0) >= oldest_ms]
        known = live.known()
        # Counted before rows are made: this is asked at every report.
        if len(ended) + sum(not job.is_active for job in known) < self._settings.least_jobs:
            if self._next_s is not None:
                self._next_s = now_s + self._settings.every_s
            return None
        rows = [*ended, *map(job_row, known)]
        return sorted(rows, key=lambda row: int(row["arrival_ms"]))[-MOST_JOBS:]

    def _question(self, rows: Rows, live: LiveJobs) -> Question:
        hits = sum(count for match, count in live.matches.items() if match.is_hit)
        is_first = rows is self._priors
        are_known = is_first or hits > KNOWN_SHARE * live.matches.total()
        return Question(
            slots=live.slots,
            order=self._order,
            ran=self._ran,
            ran_since_ms=self._since_ms,
            candidates=self._settings.candidates,
            estimates="exact" if are_known else "none",
            jobs=rows,
            is_timed=self._are_timed if is_first else True,
            parameters=self._settings.parameters,
        )

    # --- choosing --------------------------------------------------------------------------------

    def _take(self, asked: Future[dict[str, Any]], live: LiveJobs) -> Choice | None:
        """The answer is there."""
        self._asked = None
        was_first = bool(self._priors)
        self._priors = []
        try:
            verdict = asked.result()
        except Exception as error:  # noqa: BLE001 - whatever it is, what is in force stays
            words = str(error) if isinstance(error, EvaluatorError) else repr(error)
            LOG.warning("auto: no verdict (%s): %s stays", words, self.choice.policy)
            return None
        if was_first:
            self._next_s = None  # what was observed is worth more than what was known before
        chosen = self._choose(verdict, "earlier runs" if was_first else "jobs of this session")
        if chosen[:2] == self.choice[:2]:
            self.choice = chosen
            LOG.info("auto: still %s: %s", chosen.policy, chosen.why)
            return None
        if chosen.is_shadow:
            LOG.error("auto: %s goes into shadow: %s", chosen.policy, chosen.why)
        else:
            LOG.warning("auto: %s instead of %s: %s", chosen.policy, self.choice.policy, chosen.why)
        self.choice = chosen
        self._since_ms = live.time_ms
        return chosen

    def _choose(self, verdict: Mapping[str, Any], compared_by: str) -> Choice:
        by = f"{verdict['jobs']} {compared_by}"
        if verdict["followers"] > MOSTLY:
            return Choice(
                self._order, False,
                f"{100 * verdict['followers']:.0f} % of the jobs came right after another had "
                f"ended: clients that wait for their jobs, whose average JCT no order makes much "
                f"shorter ({by})",
            )  # fmt: skip
        drift = self._drift(verdict["error"])
        if drift is not None:
            # The prediction is not trusted; the policy in shadow shows its plans.
            shown = self.choice.policy
            return Choice(shown, shown != self._order, f"{drift} ({by})")
        found = {name: _words(*one) for name, one in verdict["differences"].items()}
        best = verdict["best"]
        if best is None:
            differences = ", ".join(f"{name} {one}" for name, one in found.items())
            return Choice(self._order, False, f"no policy is below {self._order} for certain "
                          f"({differences}; {by})")  # fmt: skip
        return Choice(best, False, f"average JCT {found[best]} against {self._order} ({by})")

    def _drift(self, error: tuple[float, tuple[float, float] | None] | None) -> str | None:
        """Describe how the prediction for the running policy is wrong, or None if it is not known
        to be.
        """
        if error is None or error[1] is None:
            return None
        low, high = error[1]
        above, below = 1 + self._settings.tolerance, 1 / (1 + self._settings.tolerance)
        if below <= 1 + high / 100 and 1 + low / 100 <= above:
            return None
        return f"jobs took {_words(*error)} against what was predicted under {self._asked_of}"


def _words(mean: float, ci95: tuple[float, float] | None) -> str:
    """A difference in percent, with its interval."""
    return f"{mean:+.1f} %" + ("" if ci95 is None else f" [{ci95[0]:+.1f}, {ci95[1]:+.1f}]")
