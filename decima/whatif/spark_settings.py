"""Recommended changes as lines of Spark's configuration files."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from decima.policy_names import decides_in_jvm
from decima.registry import HEURISTICS
from decima.training.tuning import parameters_json
from decima.whatif import load
from decima.whatif.bounds import bounds_settings
from decima.whatif.changes import AllocationChange, PoolChange
from decima.whatif.replay.allocation import (
    ENABLED,
    EXECUTOR_SLOTS,
    PREFIX,
    START,
    is_dynamic,
)
from decima.whatif.replay.pools import allocation_file
from decima.whatif.replay.recording import FAIR, FIFO, ORDERS, POOLS
from decima.whatif.results import ApplicationsWhatIf, Study, WhatIf
from decima.whatif.settings import DYNAMIC, STATIC
from spark_sim import Protocol

DEFAULTS, PROGRAM = "spark-defaults.conf", "the program of each job"
ALLOCATION_FILE, TUNED_FILE, COMMAND = "fairscheduler.xml", "tuned.json", "command line"
_MODE = "spark.scheduler.mode"
_MODE_FAIR = f"{_MODE} FAIR"
_FILE_SETTING = f"spark.scheduler.allocation.file /path/to/{ALLOCATION_FILE}"
_PLUGIN = (
    "spark.jars /path/to/decima-spark.jar",
    "spark.plugins decima.spark.DecimaPlugin",
)
_TRACKING = f"{PREFIX}shuffleTracking.enabled true"
_JAR = "decima spark jar -o decima-spark.jar"

Files = Mapping[str, str]
"""lines by the name of the file that they go to, or of the place"""


def policy_files(study: Study, best: str) -> Files:
    """Lines that give a live Spark the policy `best`; none where no setting does."""
    if isinstance(study, ApplicationsWhatIf):
        return _division_files(study, best)
    assert isinstance(study, WhatIf)  # noqa: S101 - the other kind
    if not is_one_session(study):
        return {}
    if best == FIFO:
        return {DEFAULTS: f"{_MODE} FIFO"}
    if best == POOLS:
        pools = study.recording.given_pools
        if pools is None:
            return {DEFAULTS: _MODE_FAIR}
        file = {ALLOCATION_FILE: allocation_file(pools)}
        return {DEFAULTS: f"{_MODE_FAIR}\n{_FILE_SETTING}", **file}
    if best == FAIR:
        return {
            DEFAULTS: _MODE_FAIR,
            PROGRAM: 'sc.setLocalProperty("spark.scheduler.pool", str(uuid.uuid4()))',
        }
    lines, files = _plugin_files(study, best)
    lines += [
        "# shadow only logs: `decima spark review day.jsonl`, then exact",
        "spark.decima.mode shadow",
        "spark.decima.decisionLog /path/to/day.jsonl",
    ]
    return {DEFAULTS: "\n".join(lines), **files}


def _plugin_files(study: WhatIf, policy: str) -> tuple[list[str], dict[str, str]]:
    """Lines of the plugin with a policy as the study has it, and those of other files."""
    files = {COMMAND: _JAR}
    if policy in ORDERS:
        return [*_PLUGIN, "spark.decima.policy spark"], files
    lines = [*_PLUGIN, f"spark.decima.policy {policy}"]
    parameters = study.main.tuned.get(policy)
    if parameters is not None and parameters != HEURISTICS[policy].defaults:
        lines.append(f"spark.decima.parameters /path/to/{TUNED_FILE}")
        files[TUNED_FILE] = json.dumps(parameters_json(policy, parameters))
    # The study's policies know the durations of tasks; a live one knows them from earlier runs.
    knows = study.settings.estimates == "exact"
    if knows or not decides_in_jvm(policy):
        lines.append("spark.decima.python /path/to/python")
    if knows:
        lines.append("spark.decima.priors /path/to/priors.parquet")
        files[COMMAND] += "\ndecima traces import spark LOGS... -o priors.parquet"
    return lines, files


def pool_files(study: WhatIf, change: PoolChange) -> Files:
    """Lines that change one pool, in the allocation file of all pools."""
    return {
        DEFAULTS: f"{_MODE_FAIR}\n{_FILE_SETTING}",
        ALLOCATION_FILE: allocation_file(change.applied(study.recording.pools(0))),
    }


def bounds_files(study: WhatIf) -> Files:
    """Lines that put the bounds in force; none where no one session ran the jobs."""
    settings = study.settings
    if not is_one_session(study):
        return {}
    lines, files = _plugin_files(study, settings.reference)
    for name, value in bounds_settings(settings.max_slots, settings.max_jobs).items():
        # A blank, a colon or an equals sign ends the name of a setting in this file.
        escaped = re.sub(r"([\s:=\\])", r"\\\1", name)
        lines.append(f"spark.decima.{escaped} {value}")
    return {DEFAULTS: "\n".join(lines), **files}


def allocation_files(study: WhatIf, change: AllocationChange) -> Files:
    """Lines that change dynamic allocation, with those that the study was asked to assume."""
    assumed = study.settings.allocation or {}
    values = {
        name: value
        for name, value in {**assumed, **change.values}.items()
        if name not in (EXECUTOR_SLOTS, START)
    }
    lines = [f"{ENABLED} true", *(f"{PREFIX}{name} {value}" for name, value in values.items())]
    return {DEFAULTS: "\n".join(lines)}


def budget_files(
    study: WhatIf, best: str, executors: int, change: AllocationChange | None = None
) -> Files:
    """Lines for the policy `best` on a fixed number of executors, or on those of a `change`."""
    if not is_one_session(study):
        return {}
    lines = f"{ENABLED} false\nspark.executor.instances {executors}"
    if change is not None:
        lines = allocation_files(study, change)[DEFAULTS]
        if not is_dynamic(study.recording.settings(0)):
            lines += f"\n{_TRACKING}"
    if best == study.settings.reference:
        return {DEFAULTS: lines}
    files = dict(policy_files(study, best))
    if best in ORDERS:
        files[DEFAULTS] += f"\n{lines}"
    else:  # fewer executors are enough only once the policy decides
        files[DEFAULTS] += "\n# once the mode is exact:" + f"\n{lines}".replace("\n", "\n# ")
    return files


def is_one_session(study: WhatIf) -> bool:
    """Whether one scheduler ran the jobs: no setting of Spark orders jobs of several."""
    is_session = study.settings.protocol == Protocol.SESSION.label
    return is_session and not load.are_pooled(study.recording)


def _division_files(study: ApplicationsWhatIf, best: str) -> Files:
    workload = study.workload
    if best == STATIC:
        cores = max(1, workload.executors // workload.at_once) * workload.slots_each
        return {DEFAULTS: f"{ENABLED} false\nspark.cores.max {cores}"}
    if best == FIFO:
        return {DEFAULTS: f"{ENABLED} false"}
    if best == DYNAMIC:
        return {DEFAULTS: f"{ENABLED} true\n{_TRACKING}"}
    lines = (
        *_PLUGIN,
        "spark.decima.coordinator 127.0.0.1:7087",
        "spark.decima.coordinatorSecretFile /path/to/secret",
        f"spark.executor.cores {workload.slots_each}",
        f"spark.cores.max {workload.executors * workload.slots_each}",
        f"{ENABLED} false",
        "spark.shuffle.service.enabled true",
    )
    command = (
        f"decima coordinate --slots {workload.executors} --policy {best} --secret-file secret "
        "--decision-log day.jsonl"
    )
    return {DEFAULTS: "\n".join(lines), COMMAND: f"{_JAR}\n{command}"}
