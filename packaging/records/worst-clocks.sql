-- Which clocks were off by the most, on the fleet's newest day? That is the newest one on
-- which more than half as many hosts recorded as on the fullest day: a clock with a wrong date
-- writes into days that the fleet has not reached.
-- off_ns: the clock was off by at most this at its worst; unknown in every minute comes first,
-- as nothing vouches for such a clock. unbounded: minutes in which nobody knew.
with
recorded as (select date as a_date, count(distinct host) as its_hosts from clocks group by date),
fullest as (select max(its_hosts) as most_hosts from recorded),
newest as (
    select max(a_date) as newest_date
    from recorded cross join fullest
    where its_hosts * 2 > most_hosts
)
select
    host,
    max(date) as of_day,
    max(error_ns) as off_ns,
    count(*) - count(error_ns) as unbounded,
    sum(case when state = 'synchronised' then 0 else 1 end) as not_synchronised,
    count(*) as minutes
from clocks
where date in (select newest_date from newest)
group by host
order by case when max(error_ns) is null then 0 else 1 end, max(error_ns) desc, host
limit 20;
