from .alibaba import read_alibaba as read_alibaba
from .arrays import TraceArrays as TraceArrays
from .arrays import to_arrays as to_arrays
from .arrivals import ARRIVALS as ARRIVALS
from .arrivals import Arrivals as Arrivals
from .arrivals import read_arrivals as read_arrivals
from .arrivals import write_arrivals as write_arrivals
from .catalog import list_builtin as list_builtin
from .catalog import load_trace as load_trace
from .decima_sim import read_decima_sim as read_decima_sim
from .errors import TraceError as TraceError
from .model import Job as Job
from .model import LevelDurations as LevelDurations
from .model import Stage as Stage
from .parquet import read_trace as read_trace
from .parquet import write_trace as write_trace
from .plain import read_csv as read_csv
from .plain import read_json as read_json
from .tpch_model import tpch_like as tpch_like
from .trace import Trace as Trace
from .wfcommons import read_wfcommons as read_wfcommons

__all__ = [
    # what a trace is
    "Trace",
    "Job",
    "Stage",
    "LevelDurations",
    "TraceError",
    # by name or path
    "load_trace",
    "list_builtin",
    # the project's file format
    "read_trace",
    "write_trace",
    # importers
    "read_decima_sim",
    "read_alibaba",
    "read_csv",
    "read_json",
    "read_wfcommons",
    # made up
    "tpch_like",
    # which job arrives when
    "Arrivals",
    "ARRIVALS",
    "read_arrivals",
    "write_arrivals",
    # for the simulator
    "TraceArrays",
    "to_arrays",
]
