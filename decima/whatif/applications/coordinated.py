"""Division by the coordinator: the code that a live cluster runs, with simulated drivers."""

from __future__ import annotations

import numpy as np

from decima.spark.coordinator.messages import Registration, Report, Stages
from decima.spark.coordinator.planning import Coordinator
from decima.spark.coordinator.settings import CoordinatorSettings
from decima.spark.loading import ready_policy
from decima.whatif.applications.cluster import ApplicationRun, ClusterRun, Way
from decima.whatif.applications.workload import ApplicationsWorkload
from spark_sim import SimulationError
from traces.numbers import MS_PER_S


class Coordinated(Way):
    """Executors that a coordinator grants to each application.

    It plans where the simulator's `executors` protocol has a scheduling event. Waiting is bounded
    as on a live cluster.
    """

    def __init__(self, policy: str, workload: ApplicationsWorkload) -> None:
        """Args:
        policy: of the coordinator, by name.
        workload: the applications.
        """
        super().__init__(workload)
        settings = CoordinatorSettings(
            workload.executors, policy, moving_delay_s=workload.delay_ms / MS_PER_S
        )
        self._coordinator = Coordinator(settings, ready_policy(policy))
        self._estimated = workload.jobs.arrays
        self._keys: dict[int, str] = {}
        self._due_ms = np.inf

    def begin(self, run: ClusterRun, application: ApplicationRun) -> None:
        """Register an application."""
        most = run.workload.executors
        registration = Registration(
            str(application.place), application.work.name, "", "", 1.0, most, self.slots_each
        )
        key = self._keys[application.place] = self._coordinator.register(
            registration, 0, run.now_ms
        )
        run.set_target(application, self._coordinator.applications[key].granted)

    def end(self, run: ClusterRun, application: ApplicationRun) -> None:
        """Free its share."""
        self._coordinator.remove(self._keys.pop(application.place), run.now_ms)

    def divide(self, run: ClusterRun) -> None:
        """Plan anew, if there is news or a bound of waiting is reached.

        Raises:
            SimulationError: the policy failed; live, strict fair would decide.
        """
        if not run.active:
            return
        if not run.is_news and run.now_ms < self._due_ms:
            run.wake(self._due_ms)
            return
        for application in run.active:
            report = Report(self._stages(application, run.now_ms), len(application.staying), ())
            self._coordinator.report(self._keys[application.place], report, run.now_ms)
        division = self._coordinator.plan(run.now_ms)
        if division.fault is not None:
            raise SimulationError(f"{self._coordinator.settings.policy}: {division.fault}")
        for application in run.active:
            run.set_target(application, division.targets[self._keys[application.place]])
        # The next application without work loses its claim on its executors.
        idle_ms = MS_PER_S * self._coordinator.settings.idle_s
        idle_ends_ms = min(
            (
                application.idle_since_ms + idle_ms
                for application in self._coordinator.applications.values()
                if application.is_between_jobs(run.now_ms, idle_ms)
            ),
            default=np.inf,
        )
        stays_until_ms = self._coordinator.stays_until_ms
        self._due_ms = min(
            self._wait_ends_ms(run.now_ms),
            idle_ends_ms,
            stays_until_ms if stays_until_ms > run.now_ms else np.inf,
        )
        run.wake(self._due_ms)

    def _wait_ends_ms(self, now_ms: float) -> float:
        """Return when an application will have waited for too long."""
        wait_ms = MS_PER_S * self._coordinator.settings.wait_s
        waits = [
            application.waited_ms(now_ms)
            for application in self._coordinator.applications.values()
            if application.waits_since_ms is not None
        ]
        if not waits:
            return np.inf
        left_ms = wait_ms - max(waits)
        # An executor is given away once it has served for as long, too.
        return now_ms + (left_ms if left_ms > 0 else wait_ms / 10)

    def _stages(self, application: ApplicationRun, now_ms: float) -> Stages | None:
        """Return the stages of all unfinished jobs, as a driver reports them."""
        if not application.jobs:
            return None
        stages = [stage for job in application.jobs for stage in job.stages]
        rows = np.array([stage.row for stage in stages])
        num_children: list[int] = [0]
        children: list[int] = []
        for job in application.jobs:
            first = len(num_children) - 1
            for stage in job.stages:
                num_children.append(len(stage.children))
                children.extend(first + child for child in stage.children)
        return Stages(
            now_ms - min(job.arrival_ms for job in application.jobs),
            np.array([stage.num_tasks for stage in stages]),
            np.array([stage.launched for stage in stages]),
            np.array([stage.finished for stage in stages]),
            np.array([stage.is_runnable for stage in stages], np.int64),
            self._estimated.mean_ms[rows],
            self._estimated.critical_path_ms[rows],
            np.cumsum(num_children),
            np.array(children, np.int64),
        )
