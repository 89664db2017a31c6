"""Coordinator of several Spark applications on one cluster (`decima coordinate`).

Each application is a job of the simulator's `executors` protocol. A policy decides how many
executors each may hold, and the drivers follow through Spark's public allocation interface.
"""
