-- Which clocks were off by the most, on the newest day of the records?
-- off_ns: the clock was off by at most this at its worst; unbounded: minutes in which
-- nobody knew by how much.
with newest as (select max(date) as newest_date from clocks)
select
    host,
    max(error_ns) as off_ns,
    count(*) - count(error_ns) as unbounded,
    sum(case when state = 'synchronised' then 0 else 1 end) as not_synchronised,
    count(*) as minutes
from clocks
where date in (select newest_date from newest)
group by host
order by coalesce(max(error_ns), -1) desc, host
limit 20
