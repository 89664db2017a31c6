"""Work on many processes: of this machine, or of a Spark cluster. Knows nothing of jobs.

A leaf but for `files`: what is to be done, and what must agree before it is, the caller says.
"""
