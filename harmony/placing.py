"""Placement of a job in a cluster that is described from outside, as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from decima.rl.errors import StudyError
from harmony.clusters import Clusters
from harmony.config import MAX_SERVERS, Config
from harmony.jobs import job_sequence
from harmony.learned import log_probabilities
from harmony.network import PolicyNetwork
from harmony.tables import PS, WORKER
from harmony.tokens import see

_ONLY = np.zeros(1, np.int32)
_EPOCHS = 1e9
_KINDS = {"workers": WORKER, "ps": PS}
_MOST_RUNNING = 1_000


def place(network: PolicyNetwork, config: Config, description: Any) -> dict[str, Any]:
    """Return the servers of a job's tasks: `{"workers": [names], "ps": [names]}`.

    Where the cluster has no room it is `{"wait": true}`.

    Args:
        network: the policy.
        config: the kind of cluster; all servers are alike but for types of GPU.
        description: an object with `servers` (their names), `job` and `running` (jobs). A job has
            `model`, `workers` and `ps` (names of the servers of its tasks); the one to place has
            `count`, how many of each it needs, and in `workers` and `ps` those that are placed.
            Where the cluster has several types of GPU, `gpus` has that of each server by its
            name, and a job may have `gpu`, the type that it needs.

    Raises:
        StudyError: the description contradicts itself, or the cluster.
    """
    names, jobs = _names(description), _jobs(description)
    wanted = [_count(job, number) for number, job in enumerate(jobs)]
    types = _gpu_of(description, config, names)
    # Servers of one type follow each other, as in a configuration.
    servers = {name: at for at, name in enumerate(sorted(names, key=lambda name: types[name]))}
    cluster = _cluster(config, list(types.values()))
    rows = [
        (0.0, str(job["model"]), counts["workers"], counts["ps"], _EPOCHS)
        for job, counts in zip(jobs, wanted, strict=True)
    ]
    exclusive = [job.get("exclusive") is True for job in jobs]
    gpu = [_needed_gpu(job, number) for number, job in enumerate(jobs)]
    clusters = Clusters(cluster, job_sequence(cluster, rows, exclusive, gpu))
    for number, job in enumerate(jobs):
        if number == len(jobs) - 1 and clusters.state.current[0] != number:
            return {"wait": True}
        for action, name in _placed(job, servers, number):
            _put(clusters, number, action, name)
    return _rest(clusters, network, servers)


def _cluster(config: Config, types: list[int]) -> Config:
    """Return the cluster with servers of these types, for one interval, in which no job ends."""
    servers, least = len(types), -(-config.max_workers // config.gpus)
    if servers < least:
        raise StudyError(f"{servers} servers: the policy is for at least {least}")
    named = tuple(
        f"{gpu.name}:{types.count(number)}:{gpu.speed}"
        for number, gpu in enumerate(config.gpu_table)
    )
    return replace(
        config.arriving("uniform"),
        servers=servers,
        gpu_types=named if config.gpu_types else (),
        gpu_required_share=0.0,
        jobs=_MOST_RUNNING + 1,
        jobs_file="",
        max_intervals=1,
    )


def _rest(clusters: Clusters, network: PolicyNetwork, servers: Mapping[str, int]) -> dict[str, Any]:
    """Place what is left of the present job: the likeliest server for each task."""
    placed: dict[str, list[str]] = {name: [] for name in _KINDS}
    names = list(servers)
    while not clusters.over[0]:
        action = int(log_probabilities(network, see(clusters, _ONLY))[0].argmax())
        kind, server = divmod(action, len(names))
        clusters.step(_ONLY, np.array([action], np.int32))
        placed["ps" if kind == PS else "workers"].append(names[server])
    return dict(placed)


def _put(clusters: Clusters, number: int, action: int, name: str) -> None:
    if clusters.state.current[0] != number or not clusters.masks(_ONLY)[0, action]:
        raise StudyError(f"job {number}: server {name!r:.40} has no room for what is there")
    clusters.step(_ONLY, np.array([action], np.int32))


def _names(description: Any) -> list[str]:
    """Return the names of the servers."""
    names = description.get("servers") if isinstance(description, dict) else None
    if not isinstance(names, list) or not 1 <= len(names) <= MAX_SERVERS:
        raise StudyError(f"a list `servers` of 1 to {MAX_SERVERS} names is needed")
    if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise StudyError("servers are not all different names")
    return names


def _gpu_of(description: dict[str, Any], config: Config, names: list[str]) -> dict[str, int]:
    """Return the number of each server's type of GPU, by the server's name."""
    gpus = description.get("gpus")
    if not config.gpu_types:
        if gpus is not None:
            raise StudyError("gpus: the policy was trained for GPUs that are all alike")
        return dict.fromkeys(names, 0)
    if not isinstance(gpus, dict) or set(gpus) != set(names):
        raise StudyError("an object `gpus` is needed, with the type of each server's GPUs")
    return {name: config.gpu_number(gpus[name]) for name in names}


def _needed_gpu(job: dict[str, Any], number: int) -> str:
    """Return the type of GPU that a job needs, or ""."""
    name = job.get("gpu", "")
    if not isinstance(name, str):
        raise StudyError(f"job {number}: gpu is {name!r:.40}: the name of a type is needed")
    return name


def _jobs(description: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the jobs that run, then the one to place."""
    running = description.get("running", [])
    if not isinstance(running, list) or len(running) > _MOST_RUNNING:
        raise StudyError(f"running is no list of at most {_MOST_RUNNING} jobs")
    jobs = [*running, description.get("job")]
    for number, job in enumerate(jobs):
        if not isinstance(job, dict) or not isinstance(job.get("model"), str):
            raise StudyError(f"job {number} is no object with a model")
    return jobs


def _count(job: dict[str, Any], number: int) -> dict[str, int]:
    """Return how many tasks of each kind a job has."""
    counts = job.get("count", {})
    if not isinstance(counts, dict):
        raise StudyError(f"job {number}: count is no object")
    wanted = {}
    for kind in _KINDS:
        names = job.get(kind, [])
        if not isinstance(names, list):
            raise StudyError(f"job {number}: {kind} is no list of servers")
        wanted[kind] = counts.get(kind, len(names))
        if type(wanted[kind]) is not int or wanted[kind] < len(names):
            raise StudyError(f"job {number}: count of {kind} is {wanted[kind]!r:.40}")
    return wanted


def _placed(
    job: dict[str, Any], servers: Mapping[str, int], number: int
) -> Iterator[tuple[int, str]]:
    """Yield the actions that placed a job's tasks, and the names of their servers."""
    for kind, code in _KINDS.items():
        for name in job.get(kind, []):
            if not isinstance(name, str) or name not in servers:
                raise StudyError(f"job {number}: {name!r:.40} is no server")
            yield code * len(servers) + servers[name], name
