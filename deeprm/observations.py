"""What networks observe: the paper's image, as pixels and as rectangles, or shares.

Every part of the image is a rectangle from a corner of its own: the units in use in one step of one
resource, the units and steps of a waiting job, the cells of the backlog. So an image is a short
list of rectangles, and the sum of weights under each is a row of a table that is made once for many
images (`deeprm.network`). The pixels themselves are drawn on request.

Letters: n observations, T rows (steps of the horizon), C columns, K rectangles of an image, R rows
of the table of all rectangles there can be, M slots, d resources, P of all machines, F shares.

Source: DeepRM (HotNets 2016), section 3.2 and figure 2. There different jobs have different
colours; here a cell in use is 1: its job changes nothing that may happen.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from decima.rl.errors import StudyError
from deeprm import observation_kernels
from deeprm.config import Config
from deeprm.episodes import Episodes
from deeprm.observation_kernels import ARRIVAL_LEVELS, DEMAND, Shape
from deeprm.tables import NONE, Bool, Float32, Int16, Int32

MOST_RECTANGLES = 2**15 - 1
"""largest number of rows of a table, by 16-bit numbers"""


@dataclass(frozen=True)
class ImageLayout:
    """The image of one configuration."""

    config: Config

    def __post_init__(self) -> None:
        if self.table_rows > MOST_RECTANGLES:
            raise StudyError(
                f"an image could hold {self.table_rows} different rectangles: "
                f"at most {MOST_RECTANGLES} can be numbered"
            )

    @property
    def shape(self) -> Shape:
        """Shape of the image."""
        config = self.config
        return Shape(
            horizon=config.horizon,
            resources=config.resources,
            pools=config.pools,
            capacity=max(config.capacities),
            cluster_columns=config.cluster_columns,
            slots=config.slots,
            slot_columns=config.max_demand,
            max_duration=config.max_duration,
            backlog=config.backlog,
            backlog_columns=-(-config.backlog // config.horizon),
            arrival_columns=int(config.shows_last_arrival),
        )

    @property
    def columns(self) -> int:
        """C."""
        shape = self.shape
        cluster = shape.pools * shape.cluster_columns
        slots = shape.resources * shape.slots * shape.slot_columns
        return cluster + slots + shape.backlog_columns + shape.arrival_columns

    @property
    def rectangles(self) -> int:
        """K, empty ones included."""
        shape = self.shape
        return shape.pools * shape.horizon + shape.resources * shape.slots + 2

    @property
    def table_rows(self) -> int:
        """R."""
        shape = self.shape
        cluster = shape.pools * shape.horizon * (shape.capacity + 1)
        each_slot = (shape.max_duration + 1) * (shape.slot_columns + 1)
        slots = shape.resources * shape.slots * each_slot
        return cluster + slots + shape.backlog + 1 + ARRIVAL_LEVELS

    def read(self, episodes: Episodes, rows: Int32) -> Int16:
        """(n, K) images of the episodes `rows` as rows of the table; NONE where nothing is."""
        chosen = np.empty((len(rows), self.rectangles), np.int16)
        observation_kernels.rectangles(self.shape, episodes.jobs, episodes.state, rows, chosen)
        return chosen

    def empty_slots(self, chosen: Int16) -> Bool:
        """(n, M) which slots show no job in (n, K) images that `read` gave."""
        shape = self.shape
        first = shape.horizon * shape.pools
        slots = chosen[:, first : first + shape.slots * shape.resources : shape.resources]
        return np.asarray(slots == NONE)

    def pixels(self, episodes: Episodes, rows: Int32) -> Float32:
        """(n, T, C) images of the episodes `rows`, each cell in 0..1."""
        pixels = np.zeros((len(rows), self.config.horizon, self.columns), np.float32)
        observation_kernels.draw(
            self.shape, episodes.rules, episodes.jobs, episodes.state, rows, pixels
        )
        return pixels


@dataclass(frozen=True)
class CompactLayout:
    """Compact observation instead of pixels: shares by job and resource, of one configuration.

    All are shares (of the horizon, of a resource, of what the backlog counts), so the same numbers
    stand for a small cluster and a large one. First for each slot, 0 where it is empty: 1 as there
    is a job, its duration over T, the steps until it could start over T (1 if it cannot end within
    the horizon), its share of each resource. Then for each step of the horizon and each resource of
    each machine the share that is free. At last the jobs beyond the slots, over those that the
    backlog counts.
    """

    config: Config

    @property
    def of_slot(self) -> int:
        """numbers of a slot: d + 3"""
        return DEMAND + self.config.resources

    @property
    def of_cluster(self) -> int:
        """numbers of the cluster: T P + 1"""
        return self.config.horizon * self.config.pools + 1

    @property
    def size(self) -> int:
        """F."""
        return self.config.slots * self.of_slot + self.of_cluster

    def read(self, episodes: Episodes, rows: Int32) -> Float32:
        """(n, F) numbers of the episodes `rows`, each in 0..1."""
        shares = np.empty((len(rows), self.size), np.float32)
        observation_kernels.numbers(
            episodes.rules, episodes.jobs, episodes.state, self.config.backlog, rows, shares
        )
        return shares
