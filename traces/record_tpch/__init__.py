"""Recording of the 22 TPC-H queries on real Spark as a trace; see `docs/tpch-trace.md`.

Derived from TPC-H; what comes out is not comparable with TPC-H results.
"""

from traces.record_tpch.plan import RecordingPlan, Variant
from traces.record_tpch.recording import read_recording, record_tpch

__all__ = ["RecordingPlan", "Variant", "read_recording", "record_tpch"]
