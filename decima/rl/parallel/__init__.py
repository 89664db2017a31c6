"""Parallel pure tasks: in this process, in others, or on a Spark cluster. Knows no jobs."""
