-- The table of the questions for DuckDB, over the folder `records` here. A line that a power
-- failure damaged is left out.
create view clocks as
select * from read_json('records/*/*/part-*.jsonl', format = 'newline_delimited',
    hive_partitioning = true, hive_types_autocast = false, ignore_errors = true,
    columns = {
        unix_s: 'bigint', version: 'varchar', platform: 'varchar', product: 'varchar',
        kernel: 'varchar', clocksource: 'varchar', state: 'varchar', source: 'varchar',
        offset_ns: 'bigint', bound_ns: 'bigint', error_ns: 'bigint', measured_age_s: 'bigint',
        frequency_ppb: 'bigint', read_ns: 'bigint', restored_unix_s: 'bigint', steal_ms: 'bigint',
        cpus: 'bigint', disruptions: 'bigint', steered: 'bigint', clock_set: 'bigint',
        leap_second: 'bigint', suspend: 'bigint', pause: 'bigint', snapshot_restored: 'bigint',
        migrated: 'bigint', source_switched: 'bigint', long_steal: 'bigint',
        host_stepped: 'bigint', counter_disrupted: 'bigint', step: 'bigint', slew: 'bigint',
        makestep: 'bigint', refused: 'bigint', failed: 'bigint', findings: 'bigint'
    })
where unix_s is not null;
