"""Writing the record of every task of an evaluation to one table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from decima.evaluation.config import ConfigError
from decima.evaluation.report import Report
from decima.evaluation.runner import PolicyRun
from decima.evaluation.sequences import draw_sequence
from files.writing import written_whole

SUFFIXES = (".parquet", ".csv")


def check_timeline_path(path: Path) -> None:
    """Refuse a suffix that no writer here knows, before hours are spent on the runs."""
    if path.suffix not in SUFFIXES:
        raise ConfigError(f"{path}: a timeline is written as {' or '.join(SUFFIXES)}")


def write_timeline(report: Report, path: Path) -> None:
    """Write one row for each task: policy, sequence, job, stage, task, executor, start, finish.

    Args:
        report: an evaluation with `timelines=True`.
        path: the file; its suffix chooses Parquet or CSV.

    Raises:
        FileError: the file cannot be written.
    """
    check_timeline_path(path)
    tables = [_rows(report, run) for found in report.policies.values() for run in found.runs]
    table = pa.concat_tables(tables)
    with written_whole(path) as file:
        if path.suffix == ".csv":
            pa.csv.write_csv(table, file)
        else:
            pa.parquet.write_table(table, file, compression="zstd")


def _rows(report: Report, run: PolicyRun) -> pa.Table:
    if run.timeline is None:
        raise ConfigError("the evaluation kept no timelines")
    record = run.timeline
    sequence = draw_sequence(report.config, report.trace, run.sequence)
    sizes = np.array([len(report.trace.jobs[job].stages) for job in sequence.job])
    first_stage = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    names = pa.array([job.name for job in report.trace.jobs])
    return pa.table(
        {
            "policy": pa.repeat(run.policy, len(record)),
            "sequence": np.full(len(record), run.sequence, np.int32),
            "job": record["job"],
            "name": names.take(pa.array(sequence.job[record["job"]])),
            "stage": record["stage"] - first_stage[record["job"]],
            "task": record["task"],
            "executor": record["executor"],
            "start_ms": record["start_ms"],
            "finish_ms": record["finish_ms"],
        }
    )
