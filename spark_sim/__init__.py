"""An event-driven simulator of Spark executors that run DAG jobs."""

from spark_sim.cluster import Cluster, ExecutorClass, Protocol
from spark_sim.errors import IllegalActionError, SimulationError
from spark_sim.observation import PASS, Action, Observation
from spark_sim.seeding import Streams
from spark_sim.simulator import Simulator, Status

__all__ = [
    "Cluster",
    "ExecutorClass",
    "Protocol",
    "Simulator",
    "Status",
    "Observation",
    "Action",
    "PASS",
    "Streams",
    "SimulationError",
    "IllegalActionError",
]
