-- Packs the day 2026-11-21 of all hosts into one Parquet file by DuckDB, over the table of
-- clocks-duckdb.sql. `host` becomes a column of the file, `date` stays the name of its folder.
copy (select * exclude (date) from clocks where date = '2026-11-21' order by host, unix_s)
to 'packed/date=2026-11-21/part-0.parquet' (format parquet, compression zstd);
