"""Advice as lines of Spark's own files: what to write where, so that the change is made."""

from __future__ import annotations

import json
from collections.abc import Mapping

from decima.policy_names import decides_in_jvm
from decima.registry import HEURISTICS
from decima.training.tuning import parameters_json
from decima.whatif import load
from decima.whatif.changes import AllocationChange, PoolChange
from decima.whatif.replay.allocation import ENABLED, EXECUTOR_SLOTS, PREFIX, START
from decima.whatif.replay.pools import allocation_file
from decima.whatif.replay.recording import FAIR, FIFO, POOLS
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
_JAR = "decima spark jar -o decima-spark.jar"

Files = Mapping[str, str]
"""lines by the name of the file that they go to, or of the place"""


def policy_files(study: Study, best: str) -> Files:
    """Lines that give a live Spark the policy `best`; none where no setting does."""
    if isinstance(study, ApplicationsWhatIf):
        return _division_files(study, best)
    assert isinstance(study, WhatIf)  # noqa: S101 - the other kind
    if study.settings.protocol != Protocol.SESSION.label or load.are_pooled(study.recording):
        return {}
    if best == FIFO:
        return {DEFAULTS: f"{_MODE} FIFO"}
    if best == POOLS:
        return {DEFAULTS: f"{_MODE_FAIR}\n{_FILE_SETTING}"}
    if best == FAIR:
        return {
            DEFAULTS: _MODE_FAIR,
            PROGRAM: 'sc.setLocalProperty("spark.scheduler.pool", "a name of its own")',
        }
    lines = [*_PLUGIN, f"spark.decima.policy {best}"]
    files = {COMMAND: _JAR}
    parameters = study.main.tuned.get(best)
    if parameters is not None and parameters != HEURISTICS[best].defaults:
        lines.append(f"spark.decima.parameters /path/to/{TUNED_FILE}")
        files[TUNED_FILE] = json.dumps(parameters_json(best, parameters))
    if not decides_in_jvm(best):
        lines.append("spark.decima.python /path/to/python")
    lines += [
        "# shadow only logs: `decima spark review day.jsonl`, then exact",
        "spark.decima.mode shadow",
        "spark.decima.decisionLog /path/to/day.jsonl",
    ]
    return {DEFAULTS: "\n".join(lines), **files}


def pool_files(study: WhatIf, change: PoolChange) -> Files:
    """Lines that change one pool, in the allocation file of all pools."""
    return {
        DEFAULTS: f"{_MODE_FAIR}\n{_FILE_SETTING}",
        ALLOCATION_FILE: allocation_file(change.applied(study.recording.pools(0))),
    }


def allocation_files(study: WhatIf, change: AllocationChange) -> Files:
    """Lines that change dynamic allocation, with those that the study was asked to assume."""
    assumed = study.settings.allocation or {}
    values = {name: value for name, value in assumed.items() if name not in (EXECUTOR_SLOTS, START)}
    for pair in change.setting.split(", "):
        name, _, values[name] = pair.partition("=")
    lines = (f"{PREFIX}{name} {value}" for name, value in values.items())
    return {DEFAULTS: "\n".join([f"{ENABLED} true", *lines])}


def instance_lines(executors: int) -> str:
    """Lines that give an application a fixed number of executors."""
    return f"{ENABLED} false\nspark.executor.instances {executors}"


def _division_files(study: ApplicationsWhatIf, best: str) -> Files:
    workload = study.workload
    if best == STATIC:
        cores = max(1, workload.executors // workload.at_once) * workload.slots_each
        return {DEFAULTS: f"{ENABLED} false\nspark.cores.max {cores}"}
    if best == FIFO:
        return {DEFAULTS: f"{ENABLED} false"}
    if best == DYNAMIC:
        tracking = f"{PREFIX}shuffleTracking.enabled true"
        return {DEFAULTS: f"{ENABLED} true\n{tracking}"}
    lines = (
        *_PLUGIN,
        "spark.decima.coordinator HOST:7087",
        "spark.decima.coordinatorSecretFile /path/to/secret",
        f"{ENABLED} false",
        "spark.shuffle.service.enabled true",
    )
    command = (
        f"decima coordinate --slots {workload.executors} --policy {best} --secret-file secret "
        "--decision-log day.jsonl"
    )
    return {DEFAULTS: "\n".join(lines), COMMAND: f"{_JAR}\n{command}"}
