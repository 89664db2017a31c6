"""Image that the paper's network sees, as pixels and as the rectangles that they form.

Every part of the image is a rectangle from a corner of its own: the units in use in one step of one
resource, the units and steps of a waiting job, the cells of the backlog. So an image is a short
list of rectangles, and the sum of weights under each is a row of a table that is made once for many
images (`deeprm.image_policy`). The pixels themselves are drawn on request.

Letters: n images, T rows, C columns, K rectangles of an image, R rows of the table of all
rectangles there can be.

Source: DeepRM (HotNets 2016), section 3.2 and figure 2. There different jobs have different
colours; here a cell in use is 1, as who holds it changes nothing that may happen.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from decima.rl.errors import StudyError
from deeprm import image_kernels
from deeprm.config import Config
from deeprm.episodes import Episodes
from deeprm.image_kernels import ARRIVAL_LEVELS, Shape
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
        found = np.empty((len(rows), self.rectangles), np.int16)
        image_kernels.rectangles(self.shape, episodes.jobs, episodes.state, rows, found)
        return found

    def empty_slots(self, seen: Int16) -> Bool:
        """(n, M) which slots show no job in (n, K) images that `read` gave."""
        shape = self.shape
        first = shape.horizon * shape.pools
        slots = seen[:, first : first + shape.slots * shape.resources : shape.resources]
        return np.asarray(slots == NONE)

    def pixels(self, episodes: Episodes, rows: Int32) -> Float32:
        """(n, T, C) images of the episodes `rows`, each cell in 0..1."""
        found = np.zeros((len(rows), self.config.horizon, self.columns), np.float32)
        image_kernels.draw(self.shape, episodes.rules, episodes.jobs, episodes.state, rows, found)
        return found
