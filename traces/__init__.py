"""Jobs as data: what a trace is, how it is stored, read, made up and replayed.

The core is `Trace` (of `Job`, `Stage`, `LevelDurations`), its file format (`read_trace`,
`write_trace`) and its flat form for the simulator (`to_arrays`). `load_trace` finds a trace by name
or path. `traces.graph` and `traces.draw` are imported by those who look at jobs.
"""

import lazy_loader

import decima_packages

decima_packages.check("traces")

# What the stub beside this file names is imported when it is first asked for: importing one module
# of the package does not wait for all.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
