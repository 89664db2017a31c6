"""`Shard`: a fixed part of every iteration. It plays its sequences, then gives gradients on them.

An iteration is cut into shards by the configuration, and shards are given to processes; so results
depend on the number of shards and never on that of processes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from decima.agent.memory import GraphSorter
from decima.agent.network import PolicyNetwork
from decima.agent.rollout import Lanes, Rollouts, roll_out
from decima.agent.scales import Scales
from decima.agent.scoring import Scorer, Scores
from decima.evaluation.config import ConfigError
from decima.policies import Heuristic
from decima.training.config import TrainConfig
from decima.training.credit import Credit, assign_credit
from decima.training.episodes import Episode, EpisodeSource
from decima.training.teacher import Teacher
from rl import objectives
from rl.optimiser import flat_gradient, set_flat_parameters
from spark_sim import Cluster, Simulator, Streams
from spark_sim.metrics import measure
from spark_sim.vector import Run
from traces import load_trace
from traces.arrays import TraceArrays, to_arrays
from traces.numbers import Float64, Int64

REFERENCE = "strict_fair"
"""the heuristic that scores are relative to"""

_SHUFFLE_STREAM = 11
CHUNK = 1024
"""decisions that are scored at once: more need more memory and take no less time"""
BLOCK = 64
"""decisions of one lane that stay together in a minibatch, since they share embeddings"""


class Collected(NamedTuple):
    """What a shard tells of its rollouts."""

    decisions: int
    advantage_sum: float
    advantage_squares: float
    reward: float
    """sum"""
    time_s: float
    """sum"""
    value_error: float
    """sum over decisions of the critic's squared error"""
    value_spread: float
    """sum over decisions of the squared deviation of the targets"""
    jct_s: dict[str, list[float]]
    """by setting: average JCT of each rollout, unfinished jobs with their age"""
    reference_jct_s: dict[str, list[float]]
    """by setting: that of the reference on each sequence"""


class Request(NamedTuple):
    """Which gradient is wanted."""

    step: int
    """which minibatch of which pass: pass x minibatches + minibatch"""
    total: float
    """decisions of a minibatch over all shards"""
    mean: float
    std: float
    """by which advantages are shifted and divided"""
    entropy_weight: float
    imitate: bool
    critic_only: bool


class Part(NamedTuple):
    """A shard's share of a gradient; shares add up."""

    gradient: Tensor  # (P,)
    loss: float
    entropy: float
    divergence: float
    clipped: float


class Shard:
    """Plays and differentiates its part of each iteration."""

    def __init__(self, config: TrainConfig, number: int) -> None:
        self._config = config
        self._number = number
        trace = load_trace(config.workload.trace)
        self._arrays = to_arrays(trace)
        self._scales = Scales.of(self._arrays)
        self._source = EpisodeSource(config, trace)
        self._sorter = GraphSorter(self._arrays)
        self._network = PolicyNetwork(config.network)
        self._device = _device(config.update.device)
        self._student = self._network  # the one that gradients are taken of
        if self._device.type != "cpu":
            self._student = PolicyNetwork(config.network).to(self._device)
        self._scorer: Scorer | None = None
        self._credit: Credit | None = None
        self._blocks: list[Int64] = []
        self._minibatches: list[Int64] = []
        self._iteration = 0

    # --- playing ---------------------------------------------------------------------------------

    def collect(self, iteration: int, weights: Tensor, rate: float, shares: Float64) -> Collected:
        """Play the shard's sequences of an iteration and assign credit.

        Args:
            iteration: which.
            weights: (P,) of the network that plays.
            rate: average reward a second so far.
            shares: how often each setting is played, if they do not take turns.
        """
        set_flat_parameters(self._network, weights)
        self._iteration = iteration
        episodes = self._own(self._source.of_iteration(iteration, shares))
        rollouts = self._play(episodes, self._config.episodes.rollouts, self._teacher(iteration))
        sequence = np.repeat(np.arange(len(episodes)), self._config.episodes.rollouts)
        credit = assign_credit(self._config.credit, rollouts, sequence, rate)
        self._scorer = Scorer(self._student, self._sorter, rollouts.recording)
        self._credit = credit
        self._recording = rollouts.recording
        self._blocks = _blocks(rollouts.recording.decisions.lane)
        self._minibatches = []
        value = rollouts.recording.decisions.value
        return Collected(
            len(credit.advantage),
            float(credit.advantage.sum()),
            float(np.square(credit.advantage).sum()),
            float(credit.reward.sum()),
            float(rollouts.end_s.sum()),
            float(np.square(credit.target - value).sum()),
            float(np.square(credit.target - credit.target.mean()).sum()),
            self._jct_by_setting(episodes, rollouts),
            reference_jct_s(episodes, self._arrays, self._config.workload.cluster()),
        )

    def validate(self, weights: Tensor) -> dict[str, list[float]]:
        """Average JCT of the likeliest actions on the shard's share of the held-back sequences."""
        set_flat_parameters(self._network, weights)
        episodes = [
            episode
            for setting in self._source.settings
            for episode in self._own(self._source.for_validation(setting))
        ]
        if not episodes:
            return {}
        lanes = Lanes(
            self._arrays, self._config.workload.cluster(), [one.run for one in episodes], None
        )
        rollouts = roll_out(self._network, self._scales, lanes)
        found: dict[str, list[float]] = {}
        for episode, state in zip(episodes, rollouts.states, strict=True):
            found.setdefault(episode.setting.label, []).append(measure(state).avg_jct_s)
        return found

    def _own(self, episodes: list[Episode]) -> list[Episode]:
        """This shard's share: neighbours, so that each shard meets every setting."""
        shards = self._config.episodes.shards
        first = len(episodes) * self._number // shards
        return episodes[first : len(episodes) * (self._number + 1) // shards]

    def _play(self, episodes: list[Episode], each: int, teacher: Teacher | None) -> Rollouts:
        runs: list[Run] = []
        uniform: list[np.random.Generator] = []
        for episode in episodes:
            for rollout in range(each):
                runs.append(episode.run)
                streams = Streams(self._config.seed, episode.number, rollout)
                uniform.append(streams.actions())
        lanes = Lanes(self._arrays, self._config.workload.cluster(), runs, uniform)
        return roll_out(self._network, self._scales, lanes, teacher)

    def _teacher(self, iteration: int) -> Teacher | None:
        imitation = self._config.imitation
        if iteration >= self._config.imitations:
            return None
        return Teacher(Heuristic(imitation.teacher, imitation.parameters))

    def _jct_by_setting(
        self, episodes: list[Episode], rollouts: Rollouts
    ) -> dict[str, list[float]]:
        each = self._config.episodes.rollouts
        found: dict[str, list[float]] = {}
        for index, state in enumerate(rollouts.states):
            label = episodes[index // each].setting.label
            found.setdefault(label, []).append(measure(state).avg_jct_s)
        return found

    # --- differentiating -------------------------------------------------------------------------

    def gradient(self, weights: Tensor, request: Request) -> Part:
        """The gradient on one minibatch of what `collect` has played."""
        set_flat_parameters(self._student, weights)
        self._student.zero_grad()
        count = self._config.update.minibatches
        if request.step % count == 0:
            self._minibatches = self._shuffled(request.step // count)
        index = self._minibatches[request.step % count]
        if not len(index) or self._scorer is None:
            return Part(torch.zeros_like(weights), 0.0, 0.0, 0.0, 0.0)
        sums = np.zeros(4)
        for first in range(0, len(index), CHUNK):
            sums += self._add_gradient(index[first : first + CHUNK], request)
        loss, entropy, divergence, clipped = sums.tolist()
        return Part(flat_gradient(self._student).cpu(), loss, entropy, divergence, clipped)

    def _add_gradient(self, index: Int64, request: Request) -> NDArray[np.float64]:
        """Add the gradient on a chunk; returns (4,) its loss, entropy, divergence and clipped."""
        assert self._scorer is not None  # noqa: S101 - `collect` comes first
        scores = self._scorer.score(index)
        if request.imitate:
            loss, divergence, clipped = self._imitation_loss(scores, index, request)
        else:
            loss, divergence, clipped = self._loss(scores, index, request)
        loss.backward()  # type: ignore[no-untyped-call]
        entropy = float(scores.entropy.detach().sum()) / request.total
        return np.array([float(loss.detach()), entropy, divergence, clipped])

    def _shuffled(self, number: int) -> list[Int64]:
        """The minibatches of one pass: whole blocks, in a new order each time."""
        key = (self._iteration, number, self._number, _SHUFFLE_STREAM)
        rng = np.random.default_rng(np.random.SeedSequence(self._config.seed, spawn_key=key))
        order = rng.permutation(len(self._blocks))
        return [
            np.concatenate([self._blocks[index] for index in part] or [np.empty(0, np.int64)])
            for part in np.array_split(order, self._config.update.minibatches)
        ]

    def _loss(self, scores: Scores, index: Int64, request: Request) -> tuple[Tensor, float, float]:
        assert self._credit is not None  # noqa: S101 - `collect` comes first
        if request.critic_only:
            return self._critic_loss(scores, index, request), 0.0, 0.0
        update = self._config.update
        total = request.total
        advantage = objectives.normalised(
            self._tensor(self._credit.advantage[index]), request.mean, request.std
        )
        divergence = clipped = 0.0
        if update.passes * update.minibatches == 1:
            loss = objectives.policy_gradient_loss(scores.log_prob, advantage, total=total)
        else:
            old = self._tensor(self._recording.decisions.log_prob[index])
            parts = objectives.clipped_ratio_loss(
                scores.log_prob, old, advantage, update.clip, total=total
            )
            loss = parts.loss
            divergence = float(parts.approximate_kl)
            clipped = float(parts.clip_fraction)
        loss = loss + objectives.entropy_loss(scores.entropy, request.entropy_weight, total=total)
        loss = loss + self._critic_loss(scores, index, request)
        return loss, divergence, clipped

    def _imitation_loss(
        self, scores: Scores, index: Int64, request: Request
    ) -> tuple[Tensor, float, float]:
        """Minus the log-probability of what the teacher advised, where the network could do it."""
        possible = torch.isfinite(scores.log_prob)
        loss = -scores.log_prob[possible].sum() / request.total
        return loss + self._critic_loss(scores, index, request), 0.0, 0.0

    def _tensor(self, values: NDArray[np.float64]) -> Tensor:
        return torch.from_numpy(values.astype(np.float32)).to(self._device)

    def _critic_loss(self, scores: Scores, index: Int64, request: Request) -> Tensor:
        if not self._config.credit.critic:
            return torch.zeros((), device=self._device)
        assert self._credit is not None  # noqa: S101 - `collect` comes first
        target = self._tensor(self._credit.target[index])
        error = objectives.value_loss(scores.value, target, total=request.total)
        return self._config.update.value_weight * error


def reference_jct_s(
    episodes: list[Episode], arrays: TraceArrays, cluster: Cluster
) -> dict[str, list[float]]:
    """By setting: average JCT of each episode under the heuristic `REFERENCE`."""
    found: dict[str, list[float]] = {}
    for episode in episodes:
        run = episode.run
        limited = cluster
        if run.time_limit_ms is not None:
            limited = replace(cluster, time_limit_ms=run.time_limit_ms)
        simulator = Simulator(
            arrays, limited, run.arrival_ms, run.job, duration_key=run.duration_key
        )
        Heuristic(REFERENCE).play(simulator)
        found.setdefault(episode.setting.label, []).append(measure(simulator.state).avg_jct_s)
    return found


def _device(wanted: str) -> torch.device:
    has_cuda = torch.cuda.is_available()
    if wanted == "cuda" and not has_cuda:
        raise ConfigError('update.device is "cuda", but torch finds no CUDA device')
    return torch.device("cuda" if has_cuda and wanted != "cpu" else "cpu")


def _blocks(lane: Int64) -> list[Int64]:
    """Runs of up to `BLOCK` decisions, each of one lane and in the order of time."""
    order = np.argsort(lane, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(lane[order])) + 1, len(order))
    found: list[Int64] = []
    first = 0
    for end in ends:
        found.extend(order[start : min(start + BLOCK, end)] for start in range(first, end, BLOCK))
        first = int(end)
    return found
