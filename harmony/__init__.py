"""Harmony: placing distributed training jobs, learned, on measured interference."""

import decima_packages

decima_packages.check("harmony")
