"""An event-driven simulator of Spark executors that run DAG jobs.

The Gymnasium environment is in `spark_sim.env`, apart, so that only its users import Gymnasium.
"""

import decima_packages

decima_packages.check("spark_sim")

from spark_sim.batch import ObservationBatch, batch_of
from spark_sim.cluster import Cluster, ExecutorClass, Protocol
from spark_sim.errors import IllegalActionError, SimulationError
from spark_sim.observation import PASS, Action, Observation
from spark_sim.seeding import Streams
from spark_sim.simulator import Simulator, Status
from spark_sim.vector import Run, StepResult, VectorSimulator

__all__ = [
    "Cluster",
    "ExecutorClass",
    "Protocol",
    "Simulator",
    "Status",
    "VectorSimulator",
    "Run",
    "StepResult",
    "Observation",
    "ObservationBatch",
    "batch_of",
    "Action",
    "PASS",
    "Streams",
    "SimulationError",
    "IllegalActionError",
]
