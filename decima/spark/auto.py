"""`Auto`: choose the policy in force by simulations of the session's own jobs.

At first and every few minutes the jobs that were observed (before any were, those of the priors)
are played under each candidate and under Spark's own order, by a process of its own. The best
candidate is put in force where it is better than Spark's order for certain, else Spark's order is.
And where jobs take longer or shorter than was predicted for what ran, nothing that is predicted is
trusted: Spark's order is in force, and the policy continues in shadow.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from decima.registry import Parameters
from decima.spark.bounds import MOST_JOBS, check_above_zero, check_count
from decima.spark.decision_log import prior_rows
from decima.spark.errors import AttachError
from decima.spark.evaluator_process import EvaluatorError, EvaluatorProcess, Question
from decima.whatif.closed_loop import MOSTLY
from traces import Trace
from traces.numbers import MS_PER_S

LOG = logging.getLogger("decima.spark")

AUTO = "auto"
"""name of the policy that is chosen by simulation"""
KNOWN_SHARE = 0.5
"""where earlier runs are found for fewer stages than this, durations count as unknown"""

Rows = Sequence[Mapping[str, Any]]
"""jobs, as lines of the decision log"""


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


class News(NamedTuple):
    """Report of the JVM on what has happened since the last one (`Judge.java`)."""

    time_ms: int
    """since the epoch"""
    slots: int
    over: Rows
    """jobs that were forgotten since"""
    known: Rows | None
    """all jobs that are known, those that run included; None if they were not asked for"""
    ended: int
    """number of known jobs that have ended"""
    prior_hits: int
    prior_misses: int
    is_left: bool
    """Spark's order is in force"""
    given_up: str | None
    """why the policy in force cannot decide"""

    @classmethod
    def of(cls, message: Mapping[str, Any]) -> News:
        """Take the fields of a message."""
        return cls(**{name: message[name] for name in cls._fields})


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

    def look(self, news: News, now_s: float | None = None) -> tuple[dict[str, Any], bool]:
        """Take in what has happened.

        Args:
            news: since the last call.
            now_s: on any clock that does not go back; None takes this machine's.

        Returns:
            What is to be in force, for `Judge.java`, and whether `News.known` is needed.
        """
        now_s = time.monotonic() if now_s is None else now_s
        self._ended.extend(news.over)
        if news.given_up is not None:
            self.give_up(news.given_up, news.time_ms)
        if news.is_left != self._is_left:
            self._is_left, self._since_ms = news.is_left, news.time_ms
        wants_known = False
        if self._asked is not None:
            if self._asked.done():
                self._take(self._asked, news)
        elif self._is_due(news, now_s):
            rows = self._rows(news)
            wants_known = rows is None
            if rows is not None:
                self._asked_of = self._ran
                self._asked = self._evaluator.ask(self._question(rows, news))
                self._next_s = now_s + self._settings.every_s
        return self.message(), wants_known

    def give_up(self, why: str, time_ms: int) -> None:
        """Return to Spark's order until the next verdict, as the chosen policy cannot decide.

        Args:
            why: it cannot.
            time_ms: since the epoch.
        """
        LOG.error("auto: %s instead of %s: %s", self._order, self.choice.policy, why)
        self.choice = Choice(self._order, False, f"{self.choice.policy}: {why}")
        self._since_ms = time_ms

    def message(self) -> dict[str, Any]:
        """Format the choice for the JVM."""
        name = self.choice.policy
        values = self._settings.parameters.get(name)
        parameters = None if values is None else {"policy": name, "parameters": dict(values)}
        left = {"is_spark_order": self.is_spark_order, "parameters": parameters}
        return self.choice._asdict() | left

    # --- asking ----------------------------------------------------------------------------------

    def _is_due(self, news: News, now_s: float) -> bool:
        """Return whether it is time to compare policies, and there are jobs to compare them on."""
        if news.slots == 0 or (self._next_s is not None and now_s < self._next_s):
            return False
        if self._priors:
            return True
        # Counted before rows are asked for: this is looked at with every report.
        if len(self._recent(news)) + news.ended < self._settings.least_jobs:
            if self._next_s is not None:
                self._next_s = now_s + self._settings.every_s
            return False
        return True

    def _recent(self, news: News) -> list[Mapping[str, Any]]:
        oldest_ms = news.time_ms - self._settings.window_s * MS_PER_S
        return [row for row in self._ended if (row["completion_ms"] or 0) >= oldest_ms]

    def _rows(self, news: News) -> Rows | None:
        """Return the jobs to compare policies on; None until the known ones were reported."""
        if self._priors:
            return self._priors
        if news.known is None:
            return None
        rows = [*self._recent(news), *news.known]
        return sorted(rows, key=lambda row: int(row["arrival_ms"]))[-MOST_JOBS:]

    def _question(self, rows: Rows, news: News) -> Question:
        is_first = rows is self._priors
        looked_up = news.prior_hits + news.prior_misses
        are_known = is_first or news.prior_hits > KNOWN_SHARE * looked_up
        return Question(
            slots=news.slots,
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

    def _take(self, asked: Future[dict[str, Any]], news: News) -> None:
        """The answer is there."""
        self._asked = None
        was_first = bool(self._priors)
        self._priors = []
        try:
            verdict = asked.result()
        except Exception as error:  # noqa: BLE001 - whatever it is, what is in force stays
            words = str(error) if isinstance(error, EvaluatorError) else repr(error)
            LOG.warning("auto: no verdict (%s): %s stays", words, self.choice.policy)
            return
        if was_first:
            self._next_s = None  # what was observed is worth more than what was known before
        chosen = self._choose(verdict, "earlier runs" if was_first else "jobs of this session")
        if chosen[:2] == self.choice[:2]:
            self.choice = chosen
            LOG.info("auto: still %s: %s", chosen.policy, chosen.why)
            return
        if chosen.is_shadow:
            LOG.error("auto: %s goes into shadow: %s", chosen.policy, chosen.why)
        else:
            LOG.warning("auto: %s instead of %s: %s", chosen.policy, self.choice.policy, chosen.why)
        self.choice = chosen
        self._since_ms = news.time_ms

    def _choose(self, verdict: Mapping[str, Any], compared_by: str) -> Choice:
        by = f"{verdict['jobs']} {compared_by}"
        if verdict["followers"] > MOSTLY:
            return Choice(
                self._order, False,
                f"{100 * verdict['followers']:.0f} % of the jobs came right after another had "
                f"ended: clients that wait for their jobs, whose average JCT no order makes much "
                f"shorter ({by})",
            )  # fmt: skip
        error = verdict["error"]
        if error is not None and error[1] is not None:
            low, high = (1 + bound / 100 for bound in error[1])
            most = 1 + self._settings.tolerance
            if high < 1 / most or low > most:
                # The prediction is not trusted; the policy in shadow shows its plans.
                shown = self.choice.policy
                drift = (
                    f"jobs took {_words(*error)} against what was predicted under {self._asked_of}"
                )
                return Choice(shown, shown != self._order, f"{drift} ({by})")
        found = {name: _words(*one) for name, one in verdict["differences"].items()}
        best = verdict["best"]
        if best is None:
            differences = ", ".join(f"{name} {one}" for name, one in found.items())
            return Choice(self._order, False, f"no policy is below {self._order} for certain "
                          f"({differences}; {by})")  # fmt: skip
        return Choice(best, False, f"average JCT {found[best]} against {self._order} ({by})")


def _words(mean: float, ci95: tuple[float, float] | None) -> str:
    """A difference in percent, with its interval."""
    return f"{mean:+.1f} %" + ("" if ci95 is None else f" [{ci95[0]:+.1f}, {ci95[1]:+.1f}]")
