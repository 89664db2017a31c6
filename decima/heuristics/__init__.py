"""The baselines of the papers, compiled: one file each; `run` plays them through."""
