-- What changed from the fleet's last day but one to its last one, after last night's
-- maintenance? Machines whose kernel, clock source, platform, source of time or version is
-- another at the day's end, whose clock was off by more than 1 ms and twice as much, or of
-- whose clock nobody knew any more by how much it was off.
-- A day of the fleet is one on which more than half as many hosts recorded as on the fullest
-- day: a clock with a wrong date makes days of its own.
with
recorded as (select date as a_date, count(distinct host) as its_hosts from clocks group by date),
fullest as (select max(its_hosts) as most_hosts from recorded),
dates as (select a_date as its_date from recorded cross join fullest where its_hosts * 2 > most_hosts),
last_day as (select max(its_date) as last_date from dates),
day_before as (
    select max(its_date) as before_date from dates
    where its_date not in (select last_date from last_day)
),
two_days as (
    select last_date as one_date from last_day
    union all select before_date from day_before
),
days as (
    select host as day_host, date as day, max(unix_s) as ended_s, max(error_ns) as worst_ns,
        sum(disruptions) as disrupted
    from clocks
    where date in (select one_date from two_days)
    group by host, date
),
ends as (
    select day_host, day, max(worst_ns) as off_ns, max(disrupted) as disruptions_of_day,
        max(coalesce(kernel, '')) as its_kernel, max(coalesce(clocksource, '')) as its_clocksource,
        max(coalesce(platform, '')) as its_platform, max(coalesce(source, '')) as its_source,
        max(coalesce(version, '')) as its_version
    from clocks inner join days on host = day_host and date = day and unix_s = ended_s
    where date in (select one_date from two_days)
    group by day_host, day
),
earlier as (
    select day_host as earlier_host, its_kernel as kernel_before,
        its_clocksource as clocksource_before, its_platform as platform_before,
        its_source as source_before, its_version as version_before, off_ns as off_ns_before
    from ends
    where day in (select before_date from day_before)
),
later as (
    select day_host as later_host, its_kernel as kernel_after,
        its_clocksource as clocksource_after, its_platform as platform_after,
        its_source as source_after, its_version as version_after, off_ns as off_ns_after,
        disruptions_of_day as disruptions_after
    from ends
    where day in (select last_date from last_day)
)
select
    later_host, kernel_before, kernel_after, clocksource_before, clocksource_after,
    platform_before, platform_after, source_before, source_after, version_before,
    version_after, off_ns_before, off_ns_after, disruptions_after
from later inner join earlier on later_host = earlier_host
where kernel_before <> kernel_after
    or clocksource_before <> clocksource_after
    or platform_before <> platform_after
    or source_before <> source_after
    or version_before <> version_after
    or (off_ns_after > 1000000 and off_ns_after > 2 * coalesce(off_ns_before, 0))
    or (off_ns_after is null and off_ns_before is not null)
order by later_host;
