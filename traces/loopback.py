"""`LOOPBACK`: settings under which a local Spark listens to this machine only."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

LOOPBACK: Mapping[str, str] = MappingProxyType(
    {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
)
"""for every Spark that the project starts; without them its ports are open to the network"""
