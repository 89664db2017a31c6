"""Files of other public traces are refused by their names."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from traces import TraceError
from traces.alibaba import read_alibaba
from traces.catalog import load_trace
from traces.spark_log import read_spark_logs

HEADS = {
    "Alibaba's trace of 2017 (batch_task.csv)": "4,100,12,34,5,Terminated,100,0.0159\n",
    "Alibaba's PAI trace of 2020 (pai_task_table.csv)": (
        "4b3f04b66a525d2df903eb16,tensorflow,1.0,Failed,494465.0,494527.0,600.0,29.3,50.0,MISC\n"
    ),
    "Alibaba's PAI trace of 2020": "job_name,inst_id,user,status,start_time,end_time\n",
    "Google's trace of 2011 (task_events)": "0,2,34183,0,41555,0,70s3,3,9,0.125,0.07,0,0\n",
    "Google's trace of 2011 (job_events)": "0,,3418309,0,IHgtoxEBuUTHNbUeVs4h,3,hB5T,X1ecPXc\n",
    "Google's trace of 2019": '{"time":"0","type":"0","collection_id":"1","instance_index":"2"}\n',
    "Azure's trace of functions": "HashOwner,HashApp,HashFunction,Trigger,1,2\n",
    "Microsoft's Philly trace (cluster_job_log)": (
        '[{"status": "Pass", "vc": "ee9e8c", "jobid": "application_1", "attempts": []}]'
    ),
}


@pytest.mark.parametrize("name", HEADS)
def test_a_known_trace_is_named(tmp_path: Path, name: str) -> None:
    """By every reader, plain or compressed, with what is read instead."""
    path = tmp_path / ("trace.json" if HEADS[name].startswith(("{", "[")) else "trace.csv")
    path.write_text(HEADS[name])
    packed = tmp_path / "trace.csv.gz"
    packed.write_bytes(gzip.compress(HEADS[name].encode()))
    for read in (
        lambda: load_trace(path),
        lambda: read_alibaba(path),
        lambda: read_alibaba(packed),
        lambda: read_spark_logs([path]),
    ):
        with pytest.raises(TraceError, match="which is not read; read are") as caught:
            read()
        assert f"this is of {name}, which" in str(caught.value)


@pytest.mark.parametrize("head", ["", "job,stage\na,b\n", "1,2,3\n", '{"jobs": []}', "{" * 50])
def test_another_file_keeps_its_readers_own_words(tmp_path: Path, head: str) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(head)
    readers: tuple[Callable[[Path], object], ...] = (load_trace, read_alibaba)
    for read in readers:
        with pytest.raises(TraceError) as caught:
            read(path)
        assert "which is not read" not in str(caught.value)
