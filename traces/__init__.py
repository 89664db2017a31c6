"""Traces: jobs as data, with file formats, importers, generators and arrivals.

The core is `Trace` (of `Job`, `Stage`, `LevelDurations`), its file format (`read_trace`,
`write_trace`) and its flat form for the simulator (`to_arrays`). `load_trace` finds a trace by name
or path. `traces.graph` and `traces.draw` are for showing jobs.
"""

import lazy_loader

import decima_packages

decima_packages.check("traces")

# Names of the stub beside this file are imported on first use, so that importing one module does
# not load all.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
