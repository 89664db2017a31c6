"""`Auto`: choose the policy in force by simulations of the session's own jobs.

At first and every few minutes the jobs that were observed (before any were, those of the priors)
are played under each candidate and under Spark's own order, by a process of its own. The best
candidate is put in force where it is better than Spark's order for certain, else Spark's order is.
And where jobs take longer or shorter than was predicted for what ran, nothing that is predicted is
trusted: Spark's order is in force, and the policy continues in shadow.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import time
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from decima.registry import Parameters
from decima.rl.parallel.module import begin_module
from decima.rl.statistics import Estimate
from decima.spark.decision_log import prior_rows
from decima.spark.settings import MOST_JOBS, AttachError, check_above_zero, check_count
from decima.spark.worker import Worker
from decima.whatif.closed_loop import MOSTLY
from traces import Trace
from traces.estimates import Estimates
from traces.files.reading import parse_object
from traces.numbers import MS_PER_S

LOG = logging.getLogger("decima.spark")

AUTO = "auto"
"""name of the policy that is chosen by simulation"""
KNOWN_SHARE = 0.5
"""where earlier runs are found for fewer stages than this, durations count as unknown"""
PATIENCE_S = 1_800.0
"""for a verdict: kernels may have to be compiled, at the lowest priority"""

Rows = Sequence[Mapping[str, Any]]
"""jobs, as lines of the decision log"""


@dataclass(frozen=True)
class AutoSettings:
    """Settings of `policy="auto"`; AttachError for a value that makes no sense."""

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
        return cls(**{name: message[name] for name in cls._fields})


class Question(NamedTuple):
    """Question for `decima.spark.candidates`."""

    slots: int
    order: str
    """Spark's own, by the name that the simulator has: fifo or spark_fair"""
    ran: str
    """what was in force, by name"""
    ran_since_ms: int
    """since the epoch; jobs that arrived before are not compared"""
    candidates: Sequence[str]
    estimates: Estimates
    """what policies know of durations in this session"""
    jobs: Rows
    """by arrival (`LiveJob.java`)"""
    is_timed: bool
    """the jobs came at their times; False: only the jobs are known"""
    parameters: Mapping[str, Mapping[str, float]]
    """of candidates, where they are not those that the package ships"""


class EvaluatorError(ValueError):
    """The process gave no verdict; the message is one line."""


class EvaluatorProcess:
    """Runner of `decima.spark.candidates`: one question at a time, each in a new process.

    The driver keeps nothing of a simulation.
    """

    def __init__(self) -> None:
        self._worker = Worker("decima-compare")
        self._process: subprocess.Popen[bytes] | None = None
        self._is_closed = False

    def ask(self, question: Question) -> Future[dict[str, Any]]:
        """Start answering; the future gives `Verdict.as_json` or raises `EvaluatorError`."""
        return self._worker.submit(lambda: self._answer(question))

    def close(self) -> None:
        self._is_closed = True
        self._worker.close()
        if self._process is not None:
            self._process.kill()

    def _answer(self, question: Question) -> dict[str, Any]:
        if self._is_closed:
            raise EvaluatorError("closed")
        process = begin_module(
            "decima.spark.candidates",
            str(os.getpid()),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the driver
        )
        self._process = process
        with process:  # which closes its pipes, whatever comes
            try:
                if self._is_closed:  # while it started, when there was nothing to kill yet
                    raise EvaluatorError("closed")
                text = json.dumps(question._asdict()).encode()
                answer, faults = process.communicate(text, PATIENCE_S)
            except subprocess.TimeoutExpired as error:
                raise EvaluatorError(f"no verdict after {PATIENCE_S:g} s") from error
            finally:
                process.kill()
        if process.returncode != 0:
            lines = faults.decode(errors="replace").strip().splitlines()
            raise EvaluatorError(lines[-1] if lines else f"exit code {process.returncode}")
        return parse_object(answer, "verdict", EvaluatorError)


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
        """`order`: Spark's own, by name; `acts`: False in mode shadow, where that one runs."""
        self._settings = settings
        self._acts = acts
        self._order = order
        self._priors: Rows = [] if priors is None else prior_rows(priors)[-MOST_JOBS:]
        self._are_timed = priors is not None and all(
            job.arrival_ms is not None for job in priors.jobs
        )
        self._evaluator = evaluator
        self._verdict: Future[dict[str, Any]] | None = None
        """the due one"""
        self._ended: deque[Mapping[str, Any]] = deque(maxlen=MOST_JOBS)
        self._next_s: float | None = None
        """when the next verdict is due; None as soon as there are enough jobs"""
        self._predicted = order
        """what ran when the newest verdict was asked for"""
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
        self._evaluator.close()

    def look(self, news: News, now_s: float | None = None) -> tuple[dict[str, Any], bool]:
        """Take in news; return what is to be in force, and whether `News.known` is needed.

        `now_s` is on any clock that does not go back; None takes this machine's.
        """
        now_s = time.monotonic() if now_s is None else now_s
        self._ended.extend(news.over)
        if news.given_up is not None:
            self.give_up(news.given_up, news.time_ms)
        if news.is_left != self._is_left:
            self._is_left, self._since_ms = news.is_left, news.time_ms
        wants_known = False
        if self._verdict is not None:
            if self._verdict.done():
                self._take(self._verdict, news)
        elif self._is_due(news, now_s):
            wants_known = not self._priors and news.known is None
            if not wants_known:
                self._ask(news)
                self._next_s = now_s + self._settings.every_s
        return self.message(), wants_known

    def give_up(self, why: str, time_ms: int) -> None:
        """Return to Spark's order until the next verdict: the chosen policy cannot decide."""
        LOG.error("auto: %s instead of %s: %s", self._order, self.choice.policy, why)
        self.choice = Choice(self._order, False, f"{self.choice.policy}: {why}")
        self._since_ms = time_ms

    def message(self) -> dict[str, Any]:
        name = self.choice.policy
        values = self._settings.parameters.get(name)
        parameters = None if values is None else {"policy": name, "parameters": dict(values)}
        order = {"is_spark_order": self.is_spark_order, "parameters": parameters}
        return self.choice._asdict() | order

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

    def _ask(self, news: News) -> None:
        """Have policies compared on the priors, at first, then on the jobs of the session."""
        rows = self._priors
        if not rows:
            jobs = [*self._recent(news), *(news.known or ())]
            rows = sorted(jobs, key=lambda row: int(row["arrival_ms"]))[-MOST_JOBS:]
        looked_up = news.prior_hits + news.prior_misses
        are_known = bool(self._priors) or news.prior_hits > KNOWN_SHARE * looked_up
        self._predicted = self._ran
        self._verdict = self._evaluator.ask(
            Question(
                slots=news.slots,
                order=self._order,
                ran=self._ran,
                ran_since_ms=self._since_ms,
                candidates=self._settings.candidates,
                estimates="exact" if are_known else "none",
                jobs=rows,
                is_timed=self._are_timed if self._priors else True,
                parameters=self._settings.parameters,
            )
        )

    def _take(self, answer: Future[dict[str, Any]], news: News) -> None:
        """Choose by a verdict that has come."""
        self._verdict = None
        was_first = bool(self._priors)
        self._priors = []
        try:
            verdict = answer.result()
        except Exception as error:  # noqa: BLE001 - whatever it is, what is in force stays
            reason = str(error) if isinstance(error, EvaluatorError) else repr(error)
            LOG.warning("auto: no verdict (%s): %s stays", reason, self.choice.policy)
            return
        if was_first:
            self._next_s = None  # what was observed is worth more than what was known before
        jobs = f"{verdict['jobs']} {'earlier runs' if was_first else 'jobs of this session'}"
        before, self.choice = self.choice, self._choose(verdict, jobs)
        policy, is_shadow, why = self.choice
        if (policy, is_shadow) == before[:2]:
            LOG.info("auto: still %s: %s", policy, why)
            return
        if is_shadow:
            LOG.error("auto: %s goes into shadow: %s", policy, why)
        else:
            LOG.warning("auto: %s instead of %s: %s", policy, before.policy, why)
        self._since_ms = news.time_ms

    def _choose(self, verdict: Mapping[str, Any], jobs: str) -> Choice:
        """Return what a verdict on so many `jobs` puts in force."""
        if verdict["followers"] > MOSTLY:
            return Choice(
                self._order, False,
                f"{100 * verdict['followers']:.0f} % of the jobs came right after another had "
                f"ended: clients that wait for their jobs, whose average JCT no order makes much "
                f"shorter ({jobs})",
            )  # fmt: skip
        error = verdict["error"]
        if error is not None and error[1] is not None:
            low, high = (1 + bound / 100 for bound in error[1])
            most = 1 + self._settings.tolerance
            if high < 1 / most or low > most:
                # The prediction is not trusted; the policy in shadow shows its plans.
                shown = self.choice.policy
                took = Estimate(*error).words("+.1f", " %")
                drift = f"jobs took {took} against what was predicted under {self._predicted}"
                return Choice(shown, shown != self._order, f"{drift} ({jobs})")
        differences = {
            name: Estimate(*difference).words("+.1f", " %")
            for name, difference in verdict["differences"].items()
        }
        best = verdict["best"]
        if best is None:
            listed = ", ".join(f"{name} {text}" for name, text in differences.items())
            return Choice(self._order, False, f"no policy is below {self._order} for certain "
                          f"({listed}; {jobs})")  # fmt: skip
        return Choice(
            best, False, f"average JCT {differences[best]} against {self._order} ({jobs})"
        )
