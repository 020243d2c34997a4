"""The questions of packaging/records, asked of DuckDB and Spark over the same made records.

Makes ROWS minutes of 1,000 hosts in the daemon's layout, a file a host and day with some damaged
lines, asks both engines all five questions and compares the answers; DuckDB then packs a day, and
the packed day has as many rows. Ends with 1 if anything differs. Needs `pip install duckdb
pyspark` and a Java runtime of version 17 or later.
"""

import argparse
import datetime
import pathlib
import random
import json
import shutil
import sys
import tempfile
import time
from multiprocessing import Pool

SQL = pathlib.Path(__file__).resolve().parent.parent / "packaging/records"
QUESTIONS = [
    "changed-last-night",
    "drift-by-clocksource",
    "margin-by-consumer",
    "restores-by-platform",
    "worst-clocks",
]
FIRST_DAY = datetime.date(2026, 11, 21)
MINUTES = 1440
KINDS = """disruptions steered clock_set leap_second suspend pause snapshot_restored migrated
    source_switched long_steal host_stepped counter_disrupted step slew makestep refused
    failed""".split()


def minutes(host, day, count):
    """The lines of a host's day."""
    chance = random.Random(f"{host} {day}")
    begin_s = day * 86_400 + int(
        datetime.datetime.combine(FIRST_DAY, datetime.time(), datetime.UTC).timestamp()
    )
    lines = []
    for minute in range(count):
        row = {
            "unix_s": begin_s + 60 * minute,
            "version": "0.2.0" if day and host % 20 == 3 else "0.1.0",
            "platform": ["KVM", "Hyper-V", "none"][host % 3],
            "product": f"product {host % 7}",
            "kernel": f"6.1.0-{50 if host % 14 == day % 14 else 49}",
            "clocksource": ["tsc", "kvm-clock", "hpet", "acpi_pm", "hyperv"][host % 5],
            "state": "holdover" if chance.random() < 0.01 else "synchronised",
            "source": f"ntp {host % 4}",
            "offset_ns": chance.randrange(-500_000, 500_000),
            "bound_ns": chance.randrange(300_000),
            "error_ns": 50_000 + chance.randrange(20_000_000),
            "measured_age_s": chance.randrange(64),
            "frequency_ppb": chance.randrange(-20_000, 20_000),
            "read_ns": 30 + chance.randrange(20),
            "steal_ms": chance.randrange(300),
            "cpus": 4,
            "findings": 0,
        }
        if host % 11:
            row |= dict.fromkeys(KINDS, 0)
            row[chance.choice(KINDS)] = 1
        if host % 13 == 5 or chance.random() < 0.05:
            del row["error_ns"], row["clocksource"]
        lines.append(json.dumps(row, separators=(",", ":")))
    return lines


def write_host(job):
    """A host's files; at the end of each a line of zeros and half a line, as a power failure
    leaves them."""
    root, host, days, last_count = job
    for day in range(days):
        count = last_count if day == days - 1 else MINUTES
        date = FIRST_DAY + datetime.timedelta(days=day)
        folder = root / f"date={date}" / f"host=db-{host}.example"
        folder.mkdir(parents=True)
        text = "\n".join(minutes(host, day, count)) + "\n" + "\0" * 40 + '\n{"unix_s":17953'
        (folder / f"part-{day}-{host:08x}.jsonl").write_text(text)
        # Of an earlier version.
        (folder / f"_part-{day}-{host:08x}.jsonl").write_text('{"unix_s":1}\n')


def make(root, rows):
    """The records, and how many there are."""
    hosts = min(1000, max(1, rows // (2 * MINUTES)))
    days = max(2, -(-rows // (hosts * MINUTES)))
    last_count = max(1, (rows - hosts * (days - 1) * MINUTES) // hosts)
    with Pool() as pool:
        jobs = [(root, host, days, last_count) for host in range(hosts)]
        pool.map(write_host, jobs, chunksize=8)
    return hosts * ((days - 1) * MINUTES + last_count)


def statements(name, folder):
    """Those of a file, over this folder in the place of `records`."""
    text = (SQL / f"{name}.sql").read_text()
    lines = [line for line in text.splitlines() if not line.startswith("--")]
    text = "\n".join(lines).replace("'records", f"'{folder}")
    return [statement for statement in text.split(";") if statement.strip()]


def duckdb(folder):
    import duckdb as engine

    session = engine.connect()
    for statement in statements("clocks-duckdb", folder):
        session.execute(statement)
    return lambda sql: [tuple(row) for row in session.execute(sql).fetchall()]


def spark(folder):
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[*]").appName("records")
    for name, value in {
        "spark.driver.memory": "3g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "8",
    }.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    for statement in statements("clocks-spark", folder):
        session.sql(statement)
    return lambda sql: [tuple(row) for row in session.sql(sql).collect()]


def check_packed(ask, scratch, folder):
    """How many faults a packed day has."""
    packed = scratch / "packed"
    (packed / f"date={FIRST_DAY}").mkdir(parents=True)
    for statement in statements("pack-day", folder):
        ask(statement.replace("'packed", f"'{packed}"))
    of_day = ask(f"select count(*), sum(unix_s), count(distinct host) from clocks where date = '{FIRST_DAY}'")
    found = ask(
        "select count(*), sum(unix_s), count(distinct host) from "
        f"read_parquet('{packed}/*/*.parquet', hive_partitioning = true)"
    )
    megabytes = sum(path.stat().st_size for path in packed.glob("*/*")) / 1e6
    print(f"packed {FIRST_DAY}: {found[0][0]} rows, {megabytes:.1f} MB")
    return found != of_day


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--scratch", type=pathlib.Path, help="where the records are made")
    args = parser.parse_args()
    scratch = pathlib.Path(tempfile.mkdtemp(dir=args.scratch))
    try:
        return compare(scratch, args.rows)
    finally:
        shutil.rmtree(scratch)


def compare(scratch, wanted):
    folder = scratch / "records"
    rows = make(folder, wanted)
    megabytes = sum(path.stat().st_size for path in folder.glob("*/*/*")) / 1e6
    print(f"{rows} rows, {megabytes:.0f} MB", flush=True)
    faults = 0
    engines = {"DuckDB": duckdb(folder), "Spark": spark(folder)}
    for engine, ask in engines.items():
        found = ask("select count(*) from clocks")[0][0]
        faults += found != rows
        print(f"{'ok ' if found == rows else 'BAD'}  {engine}: {found} rows", flush=True)
    for name in QUESTIONS:
        (sql,) = statements(name, folder)
        answers, took = {}, {}
        for engine, ask in engines.items():
            before = time.monotonic()
            answers[engine] = ask(sql)
            took[engine] = f"{engine} {time.monotonic() - before:.1f} s"
        is_same = answers["DuckDB"] == answers["Spark"] and answers["DuckDB"]
        faults += not is_same
        count = len(answers["DuckDB"])
        print(f"{'ok ' if is_same else 'BAD'}  {name}: {count} rows, {', '.join(took.values())}", flush=True)
        if not is_same:
            for engine, answer in answers.items():
                print(f"    {engine}: {answer[:3]}")
    return min(1, faults + check_packed(engines["DuckDB"], scratch, folder))


if __name__ == "__main__":
    sys.exit(main())
