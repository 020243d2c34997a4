-- How good are the clocks by each clock source?
-- p99_ns: in 99 of 100 minutes of which somebody knew, the clock was off by at most this,
-- rounded up to a microsecond; unknown where nobody ever knew, which comes first. By counts of
-- each value, as engines call and compute percentiles differently.
-- unbounded: minutes of which nobody knew.
with
counted as (
    select
        coalesce(clocksource, 'unknown') as counted_name,
        error_ns + 999 - (error_ns + 999) % 1000 as up_to_ns,
        count(error_ns) as bounded,
        count(*) as all_minutes
    from clocks
    group by coalesce(clocksource, 'unknown'), error_ns + 999 - (error_ns + 999) % 1000
),
ranked as (
    select
        counted_name,
        up_to_ns,
        bounded,
        all_minutes,
        sum(bounded) over (partition by counted_name order by up_to_ns
            rows between unbounded preceding and current row) as so_far,
        sum(bounded) over (partition by counted_name) as of_all
    from counted
),
percentiles as (
    select
        counted_name as source_name,
        min(case when so_far * 100 >= of_all * 99 then up_to_ns end) as p99_ns,
        sum(all_minutes) - sum(bounded) as unbounded
    from ranked
    group by counted_name
),
rates as (
    select
        coalesce(clocksource, 'unknown') as rated_name,
        count(distinct host) as hosts,
        count(*) as minutes,
        min(frequency_ppb) as least_ppb,
        max(frequency_ppb) as most_ppb,
        sum(counter_disrupted) as counter_disruptions
    from clocks
    group by coalesce(clocksource, 'unknown')
)
select
    source_name, hosts, minutes, unbounded, p99_ns, least_ppb, most_ppb, counter_disruptions
from percentiles inner join rates on source_name = rated_name
order by case when p99_ns is null then 0 else 1 end, p99_ns desc, source_name;
