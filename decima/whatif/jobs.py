"""Jobs one by one: which end sooner under another policy, and which later."""

from __future__ import annotations

from typing import NamedTuple

from decima.whatif.advice import best_policy
from decima.whatif.study import WhatIf
from traces.numbers import MS_PER_S

_LEAST_CHANGE = 0.01  # relative change of a job's JCT that counts as sooner or later


class JobChange(NamedTuple):
    """One recorded job under the reference and under another policy; times are means over draws."""

    name: str
    submitted_s: float  # after the first submission
    recorded_s: float  # JCT in the log
    alone_s: float  # JCT without other jobs
    reference_s: float
    policy_s: float

    @property
    def change_s(self) -> float:
        """JCT under the policy less JCT under the reference."""
        return self.policy_s - self.reference_s

    @property
    def change_percent(self) -> float:
        """Change relative to the reference, in percent."""
        return 100.0 * self.change_s / self.reference_s

    @property
    def is_sooner(self) -> bool:
        """True if the policy ends the job at least 1 % sooner."""
        return self.change_s < -_LEAST_CHANGE * self.reference_s

    @property
    def is_later(self) -> bool:
        """True if the policy ends the job at least 1 % later."""
        return self.change_s > _LEAST_CHANGE * self.reference_s


def compared_policy(found: WhatIf) -> str | None:
    """The policy to show beside the reference: the recommended one, else that of lowest average."""
    recommended = best_policy(found)
    if recommended is not None:
        return recommended
    others = [name for name in found.settings.policies if name != found.settings.reference]
    policies = found.main.policies
    return min(others, key=lambda name: float(policies[name].avg_s.mean()), default=None)


def job_changes(found: WhatIf, policy: str) -> list[JobChange]:
    """Every recorded job under the reference and `policy`, the one that gains most first."""
    recording, policies = found.recording, found.main.policies
    reference_s = policies[found.settings.reference].recorded_jct_s.mean(axis=0)
    policy_s = policies[policy].recorded_jct_s.mean(axis=0)
    first_ms = float(recording.arrival_ms.min())
    changes = [
        JobChange(
            job.name,
            (float(recording.arrival_ms[row]) - first_ms) / MS_PER_S,
            float(recording.recorded_ms[row]) / MS_PER_S,
            float(found.main.alone_s[row]),
            float(reference_s[row]),
            float(policy_s[row]),
        )
        for row, job in enumerate(recording.trace.jobs)
    ]
    return sorted(changes, key=lambda one: one.change_s)
