"""`Scorer`: the compiled network for decisions, which caches embeddings between them.

`PolicyNetwork.forward` gives the same scores, more slowly. Tests compare both to 1e-6 at every
decision of a run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from decima.agent import columns, feature_kernels, forward_kernels, plans
from decima.agent.columns import Choices
from decima.agent.forward_kernels import Memory, Scores, Scratch
from decima.agent.graph_kernels import graphs_of
from decima.agent.plans import Plans, Room
from decima.agent.scales import Scales
from decima.agent.weights import Network, packed
from spark_sim.observation import ObservationBatch
from traces.arrays import TraceArrays
from traces.numbers import Float32, Int64

Numbers = TypeVar("Numbers", NDArray[np.float32], NDArray[np.float64], NDArray[np.bool_])


class Scored(NamedTuple):
    """Decisions with the scores of all choices."""

    observation: ObservationBatch
    choices: Choices
    scores: Scores[Float32]
    memory: Memory  # overwritten by the next decisions
    changed: Int64  # jobs, by index among the J jobs, that were embedded again
    clusters: Float32  # (B, D) embedding of each decision's cluster


class Scorer:
    """Scorer with the weights that networks had on construction."""

    def __init__(
        self, network: Network | Sequence[Network], trace: TraceArrays, scales: Scales
    ) -> None:
        """Copy the weights, for observations that point to the jobs of `trace`.

        One network decides for all simulations, or several of equal sizes for one each.
        """
        networks = network if isinstance(network, Sequence) else [network]
        weights = [network.weights() for network in networks]
        self._config = weights[0].config
        self._networks = packed(weights)
        self._units = scales
        self._graphs = graphs_of(trace)
        self._room = 0, 0  # rows of jobs and of stages of each simulation
        size, hidden = self._config.embedding, self._config.head_hidden[0]
        self._known = np.empty((0, feature_kernels.KNOWN))
        none, no_rows = np.empty((0, size), np.float32), np.empty(0, np.int64)
        node_x = np.empty((0, len(columns.NODE)), np.float32)
        no_part = np.empty((0, hidden), np.float32)
        self._memory = Memory(
            x=node_x,
            e=none,
            y=none,
            added=none,
            sent=none,
            summand=none,
            is_stale=np.empty(0, np.bool_),
            stage_part=no_part,
            job_part=no_part,
            job=no_rows,
            first_stage=no_rows,
        )
        widest = int(self._networks.layer[:, :2].max())
        first, second, row = np.empty((3, widest), np.float32)
        self._scratch = Scratch(
            first,
            second,
            row,
            total=np.empty(2 * size + len(columns.NODE), np.float32),
            cluster=np.empty((3, hidden), np.float32),
            job=np.empty((3, hidden), np.float32),
            stage=np.empty(hidden, np.float32),
        )

    def make_room(self, jobs: int, stages: int, simulations: int = 1) -> None:
        """Grow the memory to at least so many rows for each of the simulations.

        Its content stays where there is one.
        """
        jobs_each, stages_each = self._room
        if jobs <= jobs_each and stages <= stages_each:
            return
        self._room = max(2 * jobs_each, jobs), max(2 * stages_each, stages)
        jobs, stages = self._room[0] * simulations, self._room[1] * simulations
        memory = self._memory
        self._known = _grown(self._known, stages)
        self._memory = memory._replace(
            x=_grown(memory.x, stages),
            e=_grown(memory.e, stages),
            y=_grown(memory.y, jobs),
            added=_grown(memory.added, jobs),
            sent=_grown(memory.sent, stages),
            summand=_grown(memory.summand, stages),
            is_stale=_grown(memory.is_stale, stages),
            stage_part=_grown(memory.stage_part, stages),
            job_part=_grown(memory.job_part, jobs),
        )
        if simulations > 1:  # their rows have moved
            self.forget()

    def forget(self) -> None:
        """Treat every job as new."""
        self._memory.x[:] = np.nan
        self._known[:] = np.nan

    def score(self, observation: ObservationBatch) -> Scored:
        """Embed the jobs that changed since the last call, and score all choices."""
        scored = self._score_stages(observation)
        every_job = np.ones(len(observation.rows), np.bool_)
        feature_kernels.describe_limits(observation, scored.choices, every_job)
        self._score_limits(scored)
        return scored

    def plan(
        self, observation: ObservationBatch, lanes: Int64, key: NDArray[np.uint64] | None
    ) -> tuple[Scored, Plans]:
        """Score the choices and draw a plan for each of the lanes, as `plans.draw` does.

        Limits are described and scored only of jobs that a round can reach by its plan.
        """
        scored = self._score_stages(observation)
        drawn = plans.plans_for(scored.choices, lanes)
        plans.plan(
            self._networks,
            self._config.limit_head,
            observation,
            scored.choices,
            scored.memory,
            self._scratch,
            scored.clusters,
            plans.keys_for(lanes, key),
            scored.scores,
            Room.of(drawn, scored.choices),
            drawn,
        )
        return scored, drawn

    def _score_stages(self, observation: ObservationBatch) -> Scored:
        """Score all but the limits."""
        choices = feature_kernels.describe(observation, self._units)
        simulation = choices.decision_of_job
        jobs_each, stages_each = self._room
        first_stage = observation.stage_row[observation.jobs["first_stage"][observation.rows]]
        memory = self._memory._replace(
            job=simulation * jobs_each + observation.job_row,
            first_stage=simulation * stages_each + first_stage,
        )
        changed = np.empty(len(observation.rows), np.int64)
        scored = self._unscored(observation, choices, memory, changed)
        count = forward_kernels.forward(
            self._networks,
            self._graphs,
            observation,
            self._units,
            self._known,
            choices,
            changed,
            memory,
            self._scratch,
            scored.clusters,
            scored.scores,
        )
        return scored._replace(changed=changed[:count])

    def score_columns(
        self, scored: Scored, choices: Choices, x: Float32, *, messages: bool
    ) -> Scores[Float32]:
        """Score decisions again with other columns, for explanations; nothing is kept.

        `x` (stages, len(NODE)) stands for `scored.memory.x`. Without messages, every stage is
        embedded without the edges of its job.
        """
        observation = scored.observation
        memory = scored.memory._replace(
            x=x,
            e=np.empty_like(scored.memory.e),
            y=np.empty_like(scored.memory.y),
            added=np.empty_like(scored.memory.added),
            sent=np.empty_like(scored.memory.sent),
            summand=np.empty_like(scored.memory.summand),
            is_stale=np.ones_like(scored.memory.is_stale),
            stage_part=np.empty_like(scored.memory.stage_part),
            job_part=np.empty_like(scored.memory.job_part),
        )
        graphs = self._graphs
        if not messages:
            graphs = graphs._replace(first_child=np.zeros_like(graphs.first_child))
        jobs = np.arange(len(observation.rows))
        forward_kernels.embed(self._networks, graphs, observation, jobs, memory, self._scratch)
        again = self._unscored(observation, choices, memory, jobs)
        forward_kernels.score(
            self._networks,
            observation,
            choices,
            memory,
            self._scratch,
            again.clusters,
            again.scores,
        )
        self._score_limits(again)
        return again.scores

    def _unscored(
        self, observation: ObservationBatch, choices: Choices, memory: Memory, changed: Int64
    ) -> Scored:
        """Return room for the scores of all choices."""
        decisions = len(observation.time_ms)
        scores = Scores(
            stage=np.empty(len(choices.stage_x), np.float32),
            end=np.empty(decisions, np.float32),
            limit=np.full(len(choices.limit_x), np.nan, np.float32),
            kind=np.empty(len(choices.class_x), np.float32),
            value=np.empty(decisions, np.float32),
        )
        clusters = np.empty((decisions, self._config.embedding), np.float32)
        return Scored(observation, choices, scores, memory, changed, clusters)

    def _score_limits(self, scored: Scored) -> None:
        """Fill the scores of all limits."""
        forward_kernels.score_limits(
            self._networks,
            self._config.limit_head,
            scored.choices,
            scored.memory,
            self._scratch,
            scored.clusters,
            np.ones(len(scored.choices.job_x), np.bool_),
            scored.scores,
        )


def _grown(values: Numbers, rows: int) -> Numbers:
    grown = np.full((rows, *values.shape[1:]), np.nan, values.dtype)
    grown[: len(values)] = values
    return grown
