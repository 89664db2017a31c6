"""`LOOPBACK`: settings under which a local Spark listens to this machine only."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

ADDRESS = "127.0.0.1"  # address of this machine, for this machine only

LOOPBACK: Mapping[str, str] = MappingProxyType(
    {"spark.driver.bindAddress": ADDRESS, "spark.driver.host": ADDRESS}
)
"""settings of every Spark that the project starts; without them its ports are open to the
network"""
