"""What a SQL execution reads and writes, by the nodes of its plan as several Sparks log them."""

from __future__ import annotations

import json

import pytest

from tests.spark_events import Event, query, text
from traces.spark_log.plans import UNKNOWN_USE, DataUse, data_use, normalised


def node(name: str, described: str | None = None, **metadata: str) -> Event:
    simple = name if described is None else described
    return {"nodeName": name, "simpleString": simple, "children": [], "metadata": metadata}


def used(*nodes: Event) -> DataUse:
    start = query(0, "a query", reads=[])
    start["sparkPlanInfo"]["children"] = list(nodes)
    return data_use(text([start]))


@pytest.mark.parametrize(
    ("name", "described", "writes"),
    [
        (
            "Execute InsertIntoHadoopFsRelationCommand",
            "Execute InsertIntoHadoopFsRelationCommand file:/w/t, x, false, Parquet, [], Append",
            "file:/w/t, x",
        ),
        (
            "Execute CreateDataSourceTableAsSelectCommand",
            "CreateDataSourceTableAsSelectCommand `spark_catalog`.`shop`.`Sales`, Overwrite",
            "shop.sales",
        ),
        (
            "Execute SaveIntoDataSourceCommand",
            "Execute SaveIntoDataSourceCommand Delta@1, Map(path -> s3a://b/t), Overwrite",
            "s3://b/t",
        ),
        ("AppendData", "AppendData Iceberg$1, IcebergWrite(table=local.db.t)", "local.db.t"),
    ],
)
def test_writing_nodes_name_their_output(name: str, described: str, writes: str) -> None:
    assert used(node(name, described)) == DataUse(writes=frozenset({writes}))


def test_a_writing_node_that_names_nothing_may_write_anything() -> None:
    assert used(node("Execute SaveIntoDataSourceCommand")) == DataUse(writes_more=True)


def test_a_benchmark_sink_and_views_write_nothing() -> None:
    noop = node("OverwriteByExpression", "OverwriteByExpression NoopTable$@1, NoopWrite$@2")
    assert used(noop, node("Execute CreateViewCommand")) == DataUse()


def test_scans_name_paths_and_tables() -> None:
    location = "CatalogFileIndex(2 paths)[file:/w/t, file:///w/u/]"
    used_names = used(
        node("Scan parquet spark_catalog.shop.sales", "FileScan Location: x", Location=location),
        node("BatchScan local.db.t"),
        node("Scan ExistingRDD"),
        node("LocalTableScan"),
    )
    assert used_names == DataUse(frozenset({"file:/w/t", "file:/w/u", "shop.sales", "local.db.t"}))


@pytest.mark.parametrize(
    "scan",
    [
        node(
            "Scan parquet ", "FileScan Location: x", Location="InMemoryFileIndex(9 paths)[a/b, ...]"
        ),
        node("Scan JDBCRelation(t) [numPartitions=1] "),
        node("BatchScan parquet file:/w/t", "BatchScan Location: InMemoryFileIndex(1 paths)[x]"),
    ],
)
def test_a_scan_that_is_not_fully_named_may_read_anything(scan: Event) -> None:
    assert used(scan).reads_more


def test_text_in_a_plan_is_no_field_of_it() -> None:
    """A query may compare with text that looks like a node."""
    quoted = json.dumps({"Location": "X(1 paths)[file:/never]"})
    assert used(node("Filter", f"Filter (a = {quoted})")) == DataUse()


def test_a_query_without_a_plan_may_read_and_write_anything() -> None:
    assert data_use(text([query(0, "a query")])) == UNKNOWN_USE


def test_one_place_has_one_name() -> None:
    assert normalised("file:///a/b/") == normalised("/a/b") == "file:/a/b"
    assert normalised("`spark_catalog`.`default`.`T`") == normalised("default.t")
