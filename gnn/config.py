"""`EncoderConfig`: sizes of the encoder, known without torch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class EncoderConfig:
    """Sizes of the encoder, and two ablations of the paper."""

    embedding: int = 16
    """D, the size of e_v, y_i and z"""
    hidden: tuple[int, ...] = (16,)
    """hidden layers of each of the six transforms; () makes all of them linear"""
    two_level: bool = True
    """False leaves out the second transform g of all three sums: it becomes the identity"""
    messages: bool = True
    """False leaves out the graph: e_v is the lifted x_v"""

    def __post_init__(self) -> None:
        if self.embedding < 1:
            raise ValueError(f"embedding {self.embedding} must be at least 1")
        if any(size < 1 for size in self.hidden):
            raise ValueError(f"hidden {self.hidden} must hold sizes of at least 1")
