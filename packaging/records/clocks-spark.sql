-- The table of the questions for Spark, over the folder `records` here. A line that a power
-- failure damaged is left out.
create temporary view lines (
    unix_s bigint, version string, platform string, product string, kernel string,
    clocksource string, state string, source string, offset_ns bigint, bound_ns bigint,
    error_ns bigint, measured_age_s bigint, frequency_ppb bigint, read_ns bigint,
    restored_unix_s bigint, steal_ms bigint, cpus bigint, disruptions bigint, steered bigint,
    clock_set bigint, leap_second bigint, suspend bigint, pause bigint, snapshot_restored bigint,
    migrated bigint, source_switched bigint, long_steal bigint, host_stepped bigint,
    counter_disrupted bigint, step bigint, slew bigint, makestep bigint, refused bigint,
    failed bigint, findings bigint, date string, host string
) using json options (path 'records', pathGlobFilter 'part-*.jsonl');
create temporary view clocks as select * from lines where unix_s is not null;
