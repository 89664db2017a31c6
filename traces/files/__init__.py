"""Files at the border of the program: atomic writes, bounded reads, names safe for a terminal.

A leaf that every package may import; knows no jobs. Each caller names the error to raise, by
default `FileError`.
"""
