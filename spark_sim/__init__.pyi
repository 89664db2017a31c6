from .allocation import Allocation as Allocation
from .batch import batch_of as batch_of
from .cluster import Cluster as Cluster
from .cluster import ExecutorClass as ExecutorClass
from .cluster import Protocol as Protocol
from .conditions import Conditions as Conditions
from .conditions import Slots as Slots
from .errors import IllegalActionError as IllegalActionError
from .errors import SimulationError as SimulationError
from .observation import PASS as PASS
from .observation import Action as Action
from .observation import Observation as Observation
from .observation import ObservationBatch as ObservationBatch
from .seeding import Streams as Streams
from .simulator import Simulator as Simulator
from .simulator import Status as Status
from .vector import Run as Run
from .vector import StepResult as StepResult
from .vector import VectorSimulator as VectorSimulator

__all__ = [
    "Allocation",
    "Cluster",
    "Conditions",
    "Slots",
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
