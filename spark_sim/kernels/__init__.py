"""Compiled code over the tables of `spark_sim.tables`: plain loops, paid for by
`benchmarks/simulator_speed.py`. Nothing outside `spark_sim` and `decima.heuristics` calls it."""
