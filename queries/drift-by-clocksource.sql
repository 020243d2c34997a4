-- How good are the clocks by each clock source?
-- p99_us: 99 of 100 minutes had the clock off by at most this, to a microsecond; by counts
-- of each value, as engines call and compute percentiles differently.
with
counted as (
    select
        coalesce(clocksource, 'unknown') as source_name,
        error_ns - error_ns % 1000 as off_ns,
        count(*) as minutes
    from clocks
    where error_ns is not null
    group by coalesce(clocksource, 'unknown'), error_ns - error_ns % 1000
),
ranked as (
    select
        source_name,
        off_ns,
        sum(minutes) over (partition by source_name order by off_ns
            rows between unbounded preceding and current row) as so_far,
        sum(minutes) over (partition by source_name) as of_all
    from counted
),
percentiles as (
    select source_name, min(off_ns) / 1000 as p99_us
    from ranked
    where so_far * 100 >= of_all * 99
    group by source_name
),
rates as (
    select
        coalesce(clocksource, 'unknown') as rated_name,
        count(distinct host) as hosts,
        count(*) as minutes,
        min(frequency_ppb) as least_ppb,
        max(frequency_ppb) as most_ppb,
        sum(counter_disrupted) as counter_disrupted
    from clocks
    group by coalesce(clocksource, 'unknown')
)
select source_name, hosts, minutes, cast(p99_us as bigint) as p99_us, least_ppb, most_ppb, counter_disrupted
from percentiles inner join rates on source_name = rated_name
order by p99_us desc, source_name
