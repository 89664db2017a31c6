"""Running a recording under other policies and on other numbers of executors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from decima.descent import descend, max_scores
from decima.policies import Parameters
from decima.replay import Recording, ReplayWorkload
from decima.whatif.resample import far_apart, resampled
from decima.whatif.settings import WhatIfSettings
from spark_sim import Streams
from traces.arrivals import Arrivals
from traces.numbers import Float64

_RECORDED = 0
_FIRST_EVALUATION = 1
_FIRST_TRAINING = 1_000_000
# Numbers of random streams: nothing is tuned on what it is judged by.

_FEW_DRAWS = 4
"""repetitions where only a mean is told, without an interval"""
_ALONE = "strict_fair"
# A single job gets every slot under any policy; this one is compiled for every protocol.


@dataclass(frozen=True, eq=False)
class PolicyResult:
    """One policy on one number of executors."""

    recorded_jct_s: Float64
    """(draws, J) with the recorded arrivals, jobs as in the trace"""
    resampled_avg_s: Float64
    """(sequences,) average JCT with resampled arrivals; empty where only the mean is of interest"""
    resampled_p95_s: Float64
    """(sequences,) 95th percentile"""

    @property
    def avg_s(self) -> Float64:
        """(draws,) average JCT with the recorded arrivals."""
        found: Float64 = self.recorded_jct_s.mean(axis=1)
        return found

    @property
    def p95_s(self) -> Float64:
        """(draws,) 95th percentile of JCT with the recorded arrivals."""
        found: Float64 = np.percentile(self.recorded_jct_s, 95, axis=1)
        return found


@dataclass(frozen=True, eq=False)
class SizeResult:
    """All policies on one number of executors."""

    executors: int
    alone_s: Float64
    """(J,) mean JCT of each job if it never met another: no policy can do better"""
    tuned: Mapping[str, Parameters]
    policies: Mapping[str, PolicyResult]


@dataclass(frozen=True, eq=False)
class WhatIf:
    """What the policies give at the number of executors asked for, at half and at twice of it."""

    recording: Recording
    settings: WhatIfSettings
    sizes: Mapping[int, SizeResult]

    @property
    def main(self) -> SizeResult:
        """At the number of executors asked for."""
        return self.sizes[self.settings.executors]


StudyProgress = Callable[[str, int], None]
"""called with what is being done and how many runs were finished since the last call"""


def what_if(
    recording: Recording,
    settings: WhatIfSettings,
    *,
    driver_times: bool = True,
    progress: StudyProgress | None = None,
) -> WhatIf:
    """Replay `recording` as `settings` ask.

    Policies meet the same arrivals and the same tasks. Parameters are fitted on resampled arrivals
    that nothing is judged by.

    Args:
        recording: the jobs.
        settings: what to compare.
        driver_times: whether the driver takes the time that was measured (`ReplayWorkload.of`).
        progress: told after each run.
    """
    workload = ReplayWorkload.of(recording, driver_times=driver_times)
    study = _Study(workload, settings, progress or (lambda *_: None))
    return WhatIf(recording, settings, {size: study.run(size) for size in settings.sizes})


def total_runs(settings: WhatIfSettings) -> int:
    """How many runs `what_if` makes at most."""
    per_size = _FEW_DRAWS + sum(max_scores(name) * settings.training for name in settings.tuned)
    policies = len(settings.policies)
    others = len(settings.sizes) - 1
    main = policies * (settings.draws + settings.sequences)
    return len(settings.sizes) * per_size + main + others * policies * _FEW_DRAWS


class _Study:
    """The runs of one what-if."""

    def __init__(
        self, workload: ReplayWorkload, settings: WhatIfSettings, progress: StudyProgress
    ) -> None:
        self._workload = workload
        self._settings = settings
        self._progress = progress
        self._evaluation = self._resampled(_FIRST_EVALUATION, settings.sequences)
        self._training = self._resampled(_FIRST_TRAINING, settings.training)

    def run(self, size: int) -> SizeResult:
        """Everything on `size` executors."""
        tuned = {name: self._fit(size, name) for name in self._settings.tuned}
        policies = {
            name: self._policy(size, name, tuned.get(name)) for name in self._settings.policies
        }
        work_ms = np.array([job.work_ms for job in self._workload.trace.jobs])
        apart = far_apart(self._workload.recorded, work_ms)
        alone_s = self._draws(size, _ALONE, None, apart, _FEW_DRAWS).mean(axis=0)
        return SizeResult(size, alone_s, tuned, policies)

    def _resampled(self, first: int, count: int) -> list[tuple[Arrivals, int]]:
        """Arrival sequences and the keys of their task durations."""
        streams = [Streams(self._settings.seed, first + number) for number in range(count)]
        return [
            (resampled(self._workload.recorded, stream.arrivals()), stream.duration_key())
            for stream in streams
        ]

    def _policy(self, size: int, name: str, parameters: Parameters | None) -> PolicyResult:
        is_main = size == self._settings.executors
        draws = self._settings.draws if is_main else _FEW_DRAWS
        recorded = self._draws(size, name, parameters, self._workload.recorded, draws)
        sequences = self._evaluation if is_main else []
        jct_s = [self._jct_s(size, name, parameters, arrivals, key) for arrivals, key in sequences]
        return PolicyResult(
            recorded,
            np.array([found.mean() for found in jct_s]),
            np.array([np.percentile(found, 95) for found in jct_s]),
        )

    def _draws(
        self,
        size: int,
        name: str,
        parameters: Parameters | None,
        arrivals: Arrivals,
        draws: int,
    ) -> Float64:
        """(draws, J) completion times of each job once, as in the trace."""
        found = np.empty((draws, len(arrivals)))
        for draw in range(draws):
            key = Streams(self._settings.seed, _RECORDED, draw).duration_key()
            found[draw, arrivals.job] = self._jct_s(size, name, parameters, arrivals, key)
        return found

    def _fit(self, size: int, name: str) -> Parameters:
        def score(parameters: Parameters) -> float:
            averages = [
                self._jct_s(size, name, parameters, arrivals, duration_key).mean()
                for arrivals, duration_key in self._training
            ]
            return float(np.mean(averages))

        best = descend(name, score)
        skipped = (max_scores(name) - best.scores) * len(self._training)
        self._progress(f"{name}, {size} slots", skipped)
        return best.parameters

    def _jct_s(
        self,
        size: int,
        name: str,
        parameters: Parameters | None,
        arrivals: Arrivals,
        duration_key: int,
    ) -> Float64:
        cluster = self._settings.cluster(size)
        found = self._workload.jct_s(cluster, name, arrivals, duration_key, parameters)
        self._progress(f"{name}, {size} slots", 1)
        return found
