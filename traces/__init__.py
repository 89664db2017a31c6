"""Jobs as data: what a trace is, how it is stored, read, made up and replayed.

The core is `Trace` (of `Job`, `Stage`, `LevelDurations`), its file format (`read_trace`,
`write_trace`) and its flat form for the simulator (`to_arrays`). `load_trace` finds a trace by name
or path. `traces.graph` and `traces.draw` are imported by those who look at jobs.
"""

import decima_packages

decima_packages.check("traces")

from traces.alibaba import read_alibaba
from traces.arrays import TraceArrays, to_arrays
from traces.arrivals import ARRIVALS, Arrivals, read_arrivals, write_arrivals
from traces.catalog import list_builtin, load_trace
from traces.decima_sim import read_decima_sim
from traces.errors import TraceError
from traces.model import Job, LevelDurations, Stage, Trace
from traces.parquet import read_trace, write_trace
from traces.plain import read_csv, read_json
from traces.tpch_model import tpch_like
from traces.wfcommons import read_wfcommons

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
