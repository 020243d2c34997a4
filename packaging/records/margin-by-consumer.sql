-- What do the clocks leave of each consumer's limit, on the fleet's newest day? That is the
-- newest one on which more than half as many hosts recorded as on the fullest day.
-- The limits are those of docs/reference/consumers.tsv. beyond: hosts whose clock may have
-- been off by more than the limit, or was not known at all.
with
limits as (
    select 'cockroachdb' as consumer, 200000000 as limit_ns
    union all select 'yugabytedb', 250000000
    union all select 'ydb', 2500000
    union all select 'kudu', 10000000000
    union all select 'ceph', 25000000
    union all select 'etcd', 500000000
    union all select 'hbase', 15000000000
    union all select 'finra-4590', 50000000
    union all select 'totp', 15000000000
    union all select 'kerberos', 150000000000
    union all select 's3', 900000000000
),
recorded as (select date as a_date, count(distinct host) as its_hosts from clocks group by date),
fullest as (select max(its_hosts) as most_hosts from recorded),
newest as (
    select max(a_date) as newest_date
    from recorded cross join fullest
    where its_hosts * 2 > most_hosts
),
worst as (
    select host, max(date) as last_day, max(error_ns) as off_ns
    from clocks
    where date in (select newest_date from newest)
    group by host
)
select
    consumer,
    max(last_day) as of_day,
    limit_ns,
    limit_ns - max(off_ns) as least_margin_ns,
    sum(case when off_ns <= limit_ns then 0 else 1 end) as beyond,
    count(*) as hosts
from limits cross join worst
group by consumer, limit_ns
order by limit_ns, consumer;
