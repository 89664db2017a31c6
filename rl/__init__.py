"""Learning by policy gradient, whatever is scheduled: nothing here knows what a job is."""

import decima_packages

decima_packages.check("rl")
