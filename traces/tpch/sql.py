"""The 22 queries of TPC-H with the parameters of the validation run, as Spark SQL."""

from __future__ import annotations

from importlib.resources import files

FRACTION_AT_1 = 0.0001
"""parameter of query 11 at scale factor 1; TPC-H divides it by the scale factor"""


def query_text(query: int, scale_factor: float) -> str:
    """SQL of query 1 to 22 for data of this size."""
    text = (files("traces.tpch") / "queries" / f"q{query:02d}.sql").read_text("utf-8")
    return text.replace(":fraction", f"{FRACTION_AT_1 / scale_factor:.12f}")
