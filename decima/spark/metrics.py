"""A scheduler's status as Prometheus metrics, served on request."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from decima.spark.errors import AttachError, missing
from traces.loopback import ADDRESS

if TYPE_CHECKING:
    from decima.spark.status import SchedulerStatus

_JVM_COUNTERS = {
    "refused_offers": "Offers that a limit refused.",
    "launches_under_limit": "Tasks started under a limit.",
    "launches_over_limit": "Tasks started beyond a limit; always 0.",
    "early_launches": "Tasks started before the first plan that knew their stage.",
    "expired_holds": "Stages that started without waiting longer for their first decision.",
    "lapses": "Times that the plan expired: no message of the scheduler while slots were idle.",
    "faults": "Exceptions of the plugin's classes in the JVM.",
    "abandoned": "1 once the JVM has detached by itself, after too long without a message.",
}


class Collector:
    """Collector that `prometheus_client` calls at each scrape."""

    def __init__(self, status: Callable[[], SchedulerStatus]) -> None:
        self._status = status

    def collect(self) -> Iterator[Any]:
        """The metric families of now."""
        from prometheus_client.core import CounterMetricFamily as Counter
        from prometheus_client.core import GaugeMetricFamily as Gauge

        status = self._status()
        yield Gauge("decima_attached", "1 while attached.", float(status.is_attached))
        yield Counter("decima_plans", "Plans made.", float(status.plans))
        yield Counter(
            "decima_fallbacks", "Rounds that strict fair decided.", float(status.fallbacks)
        )
        yield Counter("decima_starved", "Jobs served for having waited too long.",
                      float(status.starved))  # fmt: skip
        looked_up = Counter("decima_priors", "Stages looked up in `priors`.", labels=["found"])
        looked_up.add_metric(["yes"], float(status.prior_hits))
        looked_up.add_metric(["no"], float(status.prior_misses))
        yield looked_up
        yield Counter("decima_dropped_events", "Events lost.", float(status.dropped_events))
        latency = Gauge("decima_plan_seconds", "From a report to its plan.", labels=["quantile"])
        latency.add_metric(["0.5"], status.plan_ms_median / 1000)
        latency.add_metric(["0.9"], status.plan_ms_p90 / 1000)
        yield latency
        if status.choice is not None:
            in_force = Gauge("decima_auto", 'What policy "auto" has chosen.', labels=["policy"])
            in_force.add_metric([status.choice.policy], 1.0)
            yield in_force
            shadow = float(status.choice.is_shadow)
            yield Gauge("decima_auto_shadow", "1 while its choice is not trusted.", shadow)
        for name, values, text in (
            ("decima_job_slots", status.held, "Slots that a job holds."),
            ("decima_job_limit", status.limits, "Its limit in the newest plan."),
        ):
            by_job = Gauge(name, text, labels=["job"])
            for job, value in values.items():
                by_job.add_metric([job], float(value))
            yield by_job
        for name, text in _JVM_COUNTERS.items():
            yield Counter(f"decima_{name}", text, float(status.jvm.get(name, 0)))


def serve(
    status: Callable[[], SchedulerStatus], port: int, address: str = ADDRESS
) -> Callable[[], None]:
    """Serve on `port`, to this machine only, unless `address` is given; returns a function that
    stops it.

    Raises:
        AttachError: prometheus_client is not installed, or the port is taken.
    """
    try:
        from prometheus_client import CollectorRegistry, start_http_server
    except ImportError as error:
        raise missing("prometheus_client") from error
    registry = CollectorRegistry()
    registry.register(Collector(status))
    try:
        server, thread = start_http_server(port, addr=address, registry=registry)
    except OSError as error:
        raise AttachError(f"metrics port {port}: {error.strerror or error}") from error

    def stop() -> None:
        server.shutdown()
        server.server_close()
        thread.join(timeout=5.0)

    return stop
