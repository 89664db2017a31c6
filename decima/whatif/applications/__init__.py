"""Simulation of several applications on one cluster. See `docs/applications.md`."""
