"""Recording of the 22 TPC-H queries on real Spark as a trace: `python -m benchmarks.record_tpch`.

Derived from TPC-H; what comes out is not comparable with TPC-H results (`docs/tpch-trace.md`).
"""
