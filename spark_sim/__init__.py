"""An event-driven simulator of Spark executors that run DAG jobs.

The Gymnasium environment is in `spark_sim.env`, apart, so that only its users import Gymnasium.
"""

import lazy_loader

import decima_packages

decima_packages.check("spark_sim")

# What the stub beside this file names is imported when it is first asked for: importing one module
# of the package does not wait for all.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
