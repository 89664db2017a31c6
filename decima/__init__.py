"""Schedulers for Spark-style DAG jobs: baselines, comparison, tuning."""

import lazy_loader

import decima_packages

decima_packages.check("decima")

# What the stub beside this file names is imported when it is first asked for: importing one module
# of the package does not wait for all.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
