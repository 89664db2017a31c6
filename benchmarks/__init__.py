"""Measurements: speed, fidelity, comparisons with published figures. Run as `python -m`."""
