"""Harmony: placing distributed training jobs, learned, on measured interference."""
