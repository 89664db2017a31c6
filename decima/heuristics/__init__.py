"""The baselines of the papers, compiled: one file each. `run` plays a simulation under any of
them."""
