"""Files and what they say, at the border: whole or not at all, bounded, and fit for a terminal.

A leaf that every package may import. It knows nothing of jobs; each package names the error that
its own users expect, and `FileError` stands where none has been promised.
"""
