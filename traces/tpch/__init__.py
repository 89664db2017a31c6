"""The 22 TPC-H queries as Spark SQL, and their tables by `tpchgen-cli`."""
