"""Compiled code over the tables of `spark_sim.tables`: plain loops, for the speed that
`benchmarks/simulator_speed.py` measures. Called only from `spark_sim` and `decima.heuristics`."""
