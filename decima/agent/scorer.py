"""`Scorer`: the compiled network for decisions, which caches embeddings between them.

`PolicyNetwork.forward` of `graph.whole_graph` gives the same scores, more slowly. Tests compare
both to 1e-6 at every decision of a run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from decima.agent import columns, feature_kernels, forward_kernels
from decima.agent.forward_kernels import Embedded, Found, Scratch
from decima.agent.scales import Scales
from decima.agent.scene import Scene
from decima.agent.tables import Tables, describe, graphs_of
from decima.agent.weights import CERTAIN, Network, packed
from traces.arrays import TraceArrays
from traces.numbers import Float32, Int64

Numbers = TypeVar("Numbers", NDArray[np.float32], NDArray[np.float64])


class Seen(NamedTuple):
    """A scene as the network sees it, with the scores of all choices."""

    scene: Scene
    tables: Tables
    scores: Found
    changed: Int64  # jobs, by index in the scene, that were embedded again


class Scorer:
    """Scorer with the weights that networks had on construction."""

    def __init__(
        self, network: Network | Sequence[Network], trace: TraceArrays, scales: Scales
    ) -> None:
        """Copy the weights, for scenes that point to the jobs of `trace`.

        One network decides for all simulations of a scene, several of equal sizes for one each.
        """
        networks = network if isinstance(network, Sequence) else [network]
        weights = [one.weights() for one in networks]
        self._config = weights[0].config
        self._networks = packed(weights)
        self._units = scales
        self._graphs = graphs_of(trace)
        size = self._config.embedding
        self.node_x: Float32 = np.empty((0, len(columns.NODE)), np.float32)
        self._known = np.empty((0, feature_kernels.KNOWN))
        hidden = self._config.head_hidden[0]
        none = np.empty((0, size), np.float32)
        self._kept = Embedded(self.node_x, e=none, y=none, added=none, sent=none)
        widest = int(self._networks.layer[:, :2].max())
        one, other, row = np.empty((3, widest), np.float32)
        self._scratch = Scratch(
            one,
            other,
            row,
            total=np.empty(3 * size + len(columns.NODE), np.float32),
            z=np.empty(size, np.float32),
            cluster=np.empty((3, hidden), np.float32),
            job=np.empty((3, hidden), np.float32),
            stage=np.empty(hidden, np.float32),
        )

    def make_room(self, jobs: int, stages: int) -> None:
        """Grow the memory to at least so many rows; its content stays."""
        kept = self._kept
        if jobs > len(kept.y) or stages > len(self.node_x):
            jobs, stages = max(2 * len(kept.y), jobs), max(2 * len(self.node_x), stages)
            self.node_x = _with_unknown(self.node_x, stages)
            self._known = _with_unknown(self._known, stages)
            self._kept = Embedded(
                self.node_x,
                e=_grown(kept.e, stages),
                y=_grown(kept.y, jobs),
                added=_grown(kept.added, jobs),
                sent=_grown(kept.sent, stages),
            )

    def forget(self) -> None:
        """Treat every job as new."""
        self.node_x[:] = np.nan
        self._known[:] = np.nan

    def look(self, scene: Scene) -> Seen:
        """Embed the jobs that changed since the last call, and score all choices."""
        tables = describe(scene, self._units)
        changed = np.empty(len(scene.rows), np.int64)
        count = feature_kernels.remember_nodes(
            scene, self._units, self._known, self.node_x, changed
        )
        changed = changed[:count]
        kept, at = self._kept, self._scratch
        if count:
            forward_kernels.embed(self._networks, self._graphs, scene, changed, kept, at)
        found = _room(scene, tables)
        forward_kernels.score(self._networks, scene, tables.columns, kept, at, found)
        if not self._config.limit_head:
            limit = tables.columns.limit_x[:, columns.LIMIT.index("limit")]
            found = found._replace(limit=np.float32(CERTAIN) * limit)
        return Seen(scene, tables, found, changed)


def _room(scene: Scene, tables: Tables) -> Found:
    """Arrays for the scores."""
    of, decisions = tables.columns, len(scene.time_ms)
    rows = (len(of.stage_x), decisions, len(of.limit_x), len(of.classes.x), decisions)
    return Found(*(np.empty(count, np.float32) for count in rows))


def _with_unknown(values: Numbers, rows: int) -> Numbers:
    grown = np.full((rows, values.shape[1]), np.nan, values.dtype)
    grown[: len(values)] = values
    return grown


def _grown(values: Float32, rows: int) -> Float32:
    grown = np.zeros((rows, values.shape[1]), np.float32)
    grown[: len(values)] = values
    return grown
