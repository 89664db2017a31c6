"""The tests on a real Spark once more, on the oldest Spark that is supported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.real_spark import skip_without

ROOT = Path(__file__).parents[1]
REPEATED = ("attach", "faults", "exactness")
OLDEST = Path(sys.prefix) / "spark-3.5"


@pytest.mark.slow
@pytest.mark.real_spark
def test_everything_holds_on_the_oldest_spark() -> None:
    """In a process of its own that finds that pyspark first."""
    if not (OLDEST / "pyspark").is_dir():
        missing = f"there is no pyspark 3.5 at {OLDEST}: `make test` puts it there"
        skip_without(missing, os.environ)
    environment = {**os.environ, "PYTHONPATH": str(OLDEST)}
    version = "import pyspark; print(pyspark.__version__)"
    found = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-c", version], env=environment, capture_output=True, text=True, check=True
    )
    assert found.stdout.startswith("3.5.")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    result = subprocess.run(  # noqa: S603 - as above
        [*command, *(f"tests/test_spark_{name}.py" for name in REPEATED)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=1_800,
        check=False,
    )
    assert result.returncode == 0, result.stdout[-4_000:]
