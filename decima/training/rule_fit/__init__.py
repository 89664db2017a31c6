"""Fitting the weights of `es_rule` (`decima fit-rule`); start at `fit.py`."""
