-- Which platforms restore, migrate, pause and starve their machines, and how many of them?
-- A disruption that may have been one of several kinds counts in each. Unknown counts, of
-- machines whose daemon never replied, come first.
with by_host as (
    select
        coalesce(platform, 'unknown') as platform_name,
        coalesce(product, 'unknown') as product_name,
        host,
        count(*) as minutes,
        sum(snapshot_restored) as restores,
        sum(migrated) as migrations,
        sum(pause) as pauses,
        sum(long_steal) as steals,
        sum(steal_ms) as stolen_ms
    from clocks
    group by coalesce(platform, 'unknown'), coalesce(product, 'unknown'), host
)
select
    platform_name,
    product_name,
    count(*) as hosts,
    sum(case when restores > 0 then 1 else 0 end) as restored_hosts,
    sum(restores) as all_restores,
    sum(migrations) as all_migrations,
    sum(pauses) as all_pauses,
    sum(steals) as all_steals,
    sum(stolen_ms) as all_stolen_ms,
    sum(minutes) as all_minutes
from by_host
group by platform_name, product_name
order by case when all_restores is null then 0 else 1 end, all_restores desc, platform_name, product_name;
