"""Status of a coordinator, for the live page and for Prometheus."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from decima.spark.status import JobStatus, SchedulerStatus

if TYPE_CHECKING:
    from decima.spark.coordinator.server import CoordinatorServer

WORDS = {
    "job": "application",
    "slot": "executor",
    "limit": "target",
    "whole": "cluster",
    "held": "registered",
    "unserved": "without an executor",
    "age": "with work for",
    "present": "connected",
    "since": "running for",
    "live": "Dividing the executors.",
    "gone": "the coordinator has ended or is too busy",
    "hint": "A stage with tasks to start for longer than five moving delays offers its executors; "
    "the others keep theirs, and all do for ten moving delays after such a division.",
}
"""words of the page, as `decima.spark.dashboard.SESSION`"""


def status_of(server: CoordinatorServer) -> SchedulerStatus:
    """Return the status with each application as a job, and its target as the limit."""
    coordinator, times = server.coordinator, server.times
    now_ms = 1000 * time.monotonic()
    applications = dict(coordinator.applications)
    jobs = [
        JobStatus(
            key=key,
            name=application.registration.name,
            held=application.registered,
            limit=application.granted,
            waiting_tasks=application.waiting_tasks,
            age_s=None
            if application.stages is None
            else max(0.0, now_ms - application.arrival_ms) / 1000,
            unserved_s=None
            if application.waits_since_ms is None
            else (now_ms - application.waits_since_ms) / 1000,
        )
        for key, application in applications.items()
    ]
    division = server.division
    return SchedulerStatus(
        mode="applications",
        policy=coordinator.settings.policy,
        is_attached=True,
        ended_because=None,
        plans=times.count,
        fallbacks=coordinator.failures,
        last_fault=None if division is None else division.fault,
        starved=0,
        plan_ms_median=1000 * times.quantile_s(0.5),
        plan_ms_p90=1000 * times.quantile_s(0.9),
        held={job.key: job.held for job in jobs},
        limits={key: application.granted for key, application in applications.items()},
        dropped_events=0,
        prior_hits=0,
        prior_misses=0,
        slots=coordinator.settings.slots,
        jobs=tuple(jobs),
        decisions_per_s=times.per_s(),
        uptime_s=time.monotonic() - times.began_s,
        heard_s=0.0,
    )


def metrics_of(server: CoordinatorServer) -> str:
    """Return the text of `/metrics`."""
    coordinator, times = server.coordinator, server.times
    applications = dict(coordinator.applications)
    lines = [
        *_metric("applications", "gauge", len(applications)),
        *_metric("slots", "gauge", coordinator.settings.slots),
        *_metric("plans_total", "counter", times.count),
        *_metric("fallbacks_total", "counter", coordinator.failures),
        *_metric("failed_plans_total", "counter", server.failed_plans),
        *_metric("moving_delay_seconds", "gauge", coordinator.delay.ms / 1000),
        *_metric("moving_delay_samples", "gauge", coordinator.delay.samples),
        "# TYPE decima_coordinator_plan_seconds gauge",
    ]
    lines += [
        f'decima_coordinator_plan_seconds{{quantile="{part}"}} {times.quantile_s(part)}'
        for part in (0.5, 0.9)
    ]
    for label in ("granted", "registered", "waiting_tasks"):
        lines.append(f"# TYPE decima_coordinator_{label} gauge")
        for key, application in applications.items():
            quoted = key.replace("\\", "\\\\").replace('"', '\\"')
            value = getattr(application, label)
            lines.append(f'decima_coordinator_{label}{{application="{quoted}"}} {value}')
    return "\n".join(lines) + "\n"


def _metric(name: str, kind: str, value: float) -> tuple[str, str]:
    name = f"decima_coordinator_{name}"
    return f"# TYPE {name} {kind}", f"{name} {value}"
