"""Whether this machine can run a real Spark, and what becomes of the tests that need one."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from functools import cache

import pytest

from benchmarks.record_tpch.java import find_java
from traces import TraceError

REQUIRED = "REQUIRE_JAVA"
"""in the environment, as 1 (`.ci/run` sets it): what is missing fails a test, and skips none"""
SPARK = 4
"""major version of the pyspark that is installed for the tests"""


def missing_for_spark(environment: Mapping[str, str]) -> str | None:
    """What this machine lacks for a local Spark; None if nothing.

    Spark's start script takes JAVA_HOME's Java where that is set, whatever is on the path.
    """
    if importlib.util.find_spec("pyspark") is None:
        return "pyspark is not installed: pip install -e '.[spark]'"
    name = "JAVA_HOME" if environment.get("JAVA_HOME") else "PATH"
    return _missing_java(name, environment.get(name, ""))


@cache
def _missing_java(name: str, value: str) -> str | None:
    try:
        find_java(SPARK, {name: value})
    except TraceError as error:
        return str(error)
    return None


def skip_without(missing: str | None, environment: Mapping[str, str]) -> None:
    """Skip the test that runs because of what is `missing`; fail it where nothing may be."""
    if missing is None:
        return
    if environment.get(REQUIRED) == "1":
        pytest.fail(f"{REQUIRED}=1, but {missing}", pytrace=False)
    pytest.skip(missing)
