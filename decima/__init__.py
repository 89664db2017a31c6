"""Schedulers for Spark-style DAG jobs: baselines, comparison, tuning."""

import lazy_loader

import decima_packages

decima_packages.check("decima")

# Names of the stub beside this file are imported on first use, so that importing one module does
# not load all.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
