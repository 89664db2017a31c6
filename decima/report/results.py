"""Evaluations as reports need them: read from the JSON of `decima evaluate`, and checked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from decima.errors import ConfigError
from decima.evaluation.report import FIGURES, FORMAT, READABLE, VERSION
from decima.objectives import AVG_JCT, check_objective, objective_title
from decima.rl.statistics import Estimate, difference_percent
from spark_sim.cluster import MAX_EXECUTORS
from traces.files.errors import FileError
from traces.files.names import printable
from traces.files.numbers import MAX_TIME_MS
from traces.files.reading import read_json
from traces.numbers import MS_PER_S, Float64

MAX_TIME_S = MAX_TIME_MS / MS_PER_S
_MAX_EXECUTOR_S = MAX_TIME_S * MAX_EXECUTORS
_ROUNDING = 1e-6  # tolerance of shares and sums of times beyond their range

_Time = Annotated[float, Field(ge=0, le=MAX_TIME_S)]
_Positive = Annotated[float, Field(gt=0, le=MAX_TIME_S)]  # positive numbers, as they are divisors
_Share = Annotated[float, Field(ge=0, le=1 + _ROUNDING)]
_ExecutorTime = Annotated[float, Field(ge=-_ROUNDING, le=_MAX_EXECUTOR_S)]
_Count = Annotated[int, Field(ge=0)]
_Text = Annotated[str, AfterValidator(printable)]
"""a lone surrogate, which no page can hold, becomes its escape"""


class _Strict(BaseModel):
    """Base model that ignores keys it does not declare."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)


class _Config(_Strict):
    trace: _Text
    policies: Sequence[_Text] = Field(min_length=1)
    executors: int = Field(ge=1, le=MAX_EXECUTORS)
    interarrival_s: _Time
    arrivals: _Text
    sequences: int = Field(ge=1)
    seed: int
    protocol: _Text
    moving_delay_s: _Time
    estimates: _Text
    objective: _Text = AVG_JCT


class _Sequence(_Strict):
    name: list[_Text]
    arrival_s: list[_Time]
    work_s: list[_Time]


class _TimeFigure(_Strict):
    per_sequence: list[_Positive]


class _ObjectiveFigure(_Strict):
    per_sequence: list[Annotated[float, Field(ge=0, allow_inf_nan=False)]]


class _ShareFigure(_Strict):
    per_sequence: list[_Share]


class _Policy(_Strict):
    avg_jct_s: _TimeFigure
    median_jct_s: _TimeFigure
    p95_jct_s: _TimeFigure
    p99_jct_s: _TimeFigure
    makespan_s: _TimeFigure
    avg_slowdown: _TimeFigure
    utilisation: _ShareFigure
    fairness: _ShareFigure
    busy_executor_s: _ExecutorTime
    moving_executor_s: _ExecutorTime
    idle_executor_s: _ExecutorTime
    first_executor_s: _ExecutorTime
    unfinished: _Count
    not_arrived: _Count
    jct_s: list[list[_Time]]
    objective: _ObjectiveFigure | None = None
    """None where it is the average JCT"""


class _File(_Strict):
    format: Literal["decima-evaluation"]
    version: int
    config: _Config
    sequences: list[_Sequence]
    policies: dict[_Text, _Policy]


@dataclass(frozen=True, eq=False)
class Jobs:
    """One sequence of K jobs."""

    name: Sequence[str]
    arrival_s: Float64  # (K,)
    work_s: Float64  # (K,) tasks x mean duration


@dataclass(frozen=True, eq=False)
class PolicyResults:
    """One policy over S sequences."""

    figures: Mapping[str, Float64]
    """(S,) each of `FIGURES`"""
    objective: Float64
    """(S,) what differences between policies are in"""
    jct_s: Sequence[Float64]
    """JCTs of each sequence, (A,) for the A jobs that arrived, which are its first"""
    executor_s: Mapping[str, float]
    """executor-seconds of work, first tasks, moving and idling"""
    unfinished: int
    not_arrived: int


@dataclass(frozen=True, eq=False)
class Results:
    """One evaluation: policies that met the same sequences in one setting."""

    label: str
    settings: Mapping[str, Any]
    """the settings, in words"""
    trace: str
    executors: int
    is_session: bool
    """True if the executors are slots of one shared session"""
    sequences: Sequence[Jobs]
    policies: Mapping[str, PolicyResults]
    """the first is what the others are compared with"""
    objective: str = AVG_JCT
    """name of what differences are in (`decima.objectives`)"""

    @property
    def title(self) -> str:
        """What the objective is called."""
        return objective_title(self.objective)

    @property
    def reference(self) -> str:
        """The first policy."""
        return next(iter(self.policies))


def read_results(path: Path) -> Results:
    """The results in a file that `decima evaluate --json` wrote.

    Raises:
        FileError: (one line) it cannot be read or is no such file.
    """
    return results_of(read_json(path, FileError), str(path))


def results_of(content: Any, where: str) -> Results:
    """The results in what `Report.to_json` gave.

    Raises:
        FileError: (one line, beginning with `where`) it is damaged or of another version.
    """
    if isinstance(content, dict) and content.get("format") == FORMAT:
        if content.get("version") not in READABLE:
            raise FileError(
                f"{where}: version {content.get('version')!r:.40} of the results, this reads "
                f"{VERSION}: evaluate again"
            )
    elif isinstance(content, dict) and "policies" in content and "format" not in content:
        raise FileError(f"{where}: results without a version, of an older release: evaluate again")
    try:
        file = _File.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "the file"
        raise FileError(f"{where}: no results of an evaluation: {place}: {first['msg']}") from error
    _check(file, where)
    return _results(file)


def _check(file: _File, where: str) -> None:
    """Refuse lists of lengths that do not belong together."""
    count = file.config.sequences
    if len(file.sequences) != count:
        raise FileError(f"{where}: {len(file.sequences)} sequences where {count} were asked for")
    if list(file.policies) != list(file.config.policies):
        raise FileError(f"{where}: policies {list(file.policies)!s:.200} are not those asked for")
    for number, sequence in enumerate(file.sequences):
        if not 1 <= len(sequence.name) == len(sequence.arrival_s) == len(sequence.work_s):
            raise FileError(f"{where}: sequence {number}: not as many names as arrivals")
    try:
        check_objective(file.config.objective)
    except ConfigError as error:
        raise FileError(f"{where}: {error}") from error
    for name, policy in file.policies.items():
        if len(_objective(file, policy).per_sequence) != count:
            raise FileError(f"{where}: {name}: the objective has not {count} values")
        for figure in FIGURES:
            if len(getattr(policy, figure).per_sequence) != count:
                raise FileError(f"{where}: {name}: {figure} has not {count} values")
        arrived = [len(jct_s) for jct_s in policy.jct_s]
        jobs = [len(sequence.name) for sequence in file.sequences]
        if len(arrived) != count or any(
            not 1 <= a <= k for a, k in zip(arrived, jobs, strict=True)
        ):
            raise FileError(
                f"{where}: {name}: completion times of {arrived[:9]!s:.60} of {jobs[:9]!s:.60} jobs"
            )
        if sum(jobs) - sum(arrived) != policy.not_arrived:
            raise FileError(
                f"{where}: {name}: completion times of {sum(arrived):,} of {sum(jobs):,} jobs, "
                f"where {policy.not_arrived:,} have not arrived"
            )


def _results(file: _File) -> Results:
    config = file.config
    return Results(
        label=_label(config),
        settings={
            "trace": config.trace,
            "executors": config.executors,
            "protocol": config.protocol,
            "arrivals": config.arrivals,
            "mean gap": f"{config.interarrival_s:g} s",
            "moving delay": f"{config.moving_delay_s:g} s",
            "estimates": config.estimates,
            "sequences": config.sequences,
            "jobs in a sequence": len(file.sequences[0].name),
            "seed": config.seed,
            **({} if config.objective == AVG_JCT else {"compared by": config.objective}),
        },
        trace=config.trace,
        executors=config.executors,
        is_session=config.protocol == "session",
        sequences=[
            Jobs(sequence.name, np.array(sequence.arrival_s), np.array(sequence.work_s))
            for sequence in file.sequences
        ],
        policies={name: _policy(file, policy) for name, policy in file.policies.items()},
        objective=config.objective,
    )


def _objective(file: _File, policy: _Policy) -> _TimeFigure | _ObjectiveFigure:
    """Return the figure that policies are compared by; without one there are no values."""
    if file.config.objective == AVG_JCT:
        return policy.avg_jct_s
    return policy.objective or _ObjectiveFigure(per_sequence=[])


def _label(config: _Config) -> str:
    slots = "slots" if config.protocol == "session" else "executors"
    arriving = config.arrivals
    if config.arrivals != "batch":
        arriving += f", a job every {config.interarrival_s:g} s"
    return f"{Path(config.trace).name}, {config.executors} {slots}, {arriving}"


def _policy(file: _File, policy: _Policy) -> PolicyResults:
    first_s = min(policy.first_executor_s, policy.busy_executor_s)
    return PolicyResults(
        figures={name: np.array(getattr(policy, name).per_sequence) for name in FIGURES},
        objective=np.array(_objective(file, policy).per_sequence),
        jct_s=[np.array(values) for values in policy.jct_s],
        executor_s={
            "work": policy.busy_executor_s - first_s,
            "first tasks": first_s,
            "moving": policy.moving_executor_s,
            "idle": max(0.0, policy.idle_executor_s),
        },
        unfinished=policy.unfinished,
        not_arrived=policy.not_arrived,
    )


def difference_to(values: Float64, reference: Float64) -> Estimate | None:
    """The difference in percent; nothing is a percentage of 0, as a short run's utilisation is."""
    if (reference <= 0).any():
        return None
    return difference_percent(values, reference)


def significant(value: float) -> float:
    """Five significant digits, which is what a chart shows."""
    if value == 0 or not math.isfinite(value):
        return 0.0
    return round(value, 4 - math.floor(math.log10(abs(value))))
