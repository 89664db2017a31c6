"""An event-driven simulator of Spark executors that run DAG jobs.

The Gymnasium environment is in `spark_sim.env`, so that only its users import Gymnasium.
"""

import lazy_loader

import decima_packages

decima_packages.check("spark_sim")

# Names of the stub beside this file are imported on first use, so that importing one module does
# not load all.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
