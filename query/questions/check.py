"""The shipped questions, in several engines: the same answers, and those that are expected.

`cargo xtask queries` starts it. Records of known content are written by the daemon's own
code, each question is asked of DuckDB, DataFusion, ClickHouse (chdb), with --own of
parachron-query and with --spark of a cluster, and the answers are compared with rows that
plain Python computes of the same content. With --rows they are also asked over so many made
rows, and timed; there the engines are held to each other.
"""

import argparse
import datetime
import json
import os
import pathlib
import random
import shutil
import socket
import subprocess
import sys
import time

QUERIES = pathlib.Path(__file__).resolve().parent
BAR_S = 10.0
CPUS = 2
DISTINCT_DAYS = 14

# ---------------------------------------------------------------- the engines


def duckdb(folder):
    import duckdb as engine

    db = engine.connect()
    db.execute(f"set threads to {CPUS}")
    db.execute(
        "create view clocks as select * from "
        f"read_parquet('{folder}/**/*.parquet', hive_partitioning = true)"
    )
    return lambda sql: db.execute(sql).fetchall()


def datafusion(folder):
    import datafusion as engine
    import pyarrow

    context = engine.SessionContext(engine.SessionConfig().with_target_partitions(CPUS))
    levels = ["date", "host"] if list(folder.glob("date=*/host=*")) else ["date"]
    columns = [(name, pyarrow.string()) for name in levels]
    context.register_parquet("clocks", str(folder), table_partition_cols=columns)

    def ask(sql):
        rows = []
        for batch in context.sql(sql).collect():
            rows += list(zip(*(column.to_pylist() for column in batch.columns)))
        return rows

    return ask


def clickhouse(folder):
    from chdb import session as engine

    session = engine.Session()
    session.query(f"set max_threads = {CPUS}")
    session.query(
        f"create view clocks as select * from file('{folder}/**/*.parquet', Parquet)"
    )

    def ask(sql):
        answer = str(session.query(sql, "JSONCompactStringsEachRow"))
        return [tuple(json.loads(line)) for line in answer.splitlines()]

    return ask


def own(program):
    """`parachron fleet query`'s, where it was built."""

    def begin(folder):
        def ask(sql):
            asked = [program, "--format", "rows", "--records", folder, "--", sql]
            answer = subprocess.run(asked, capture_output=True, text=True)
            if answer.returncode:
                raise RuntimeError(answer.stderr)
            return [tuple(json.loads(line)) for line in answer.stdout.splitlines()[1:]]

        return ask

    return begin


class SparkCluster:
    """A master and two workers of one CPU each, on loopback; all end with this program."""

    WORKERS = 2

    def __init__(self, logs):
        import atexit

        import pyspark

        self.daemons, self.session = [], None
        atexit.register(self.stop)
        logs.mkdir(parents=True, exist_ok=True)
        self.home = pathlib.Path(pyspark.__file__).parent
        self.logs = logs
        self.port = self.free_port()
        self.start("Master", ["--port", str(self.port)])
        for _ in range(self.WORKERS):
            self.start("Worker", ["--cores", "1", "--memory", "1G", self.url()])

    def url(self):
        return f"spark://127.0.0.1:{self.port}"

    @staticmethod
    def free_port():
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            return listener.getsockname()[1]

    def start(self, role, options):
        classes = f"org.apache.spark.deploy.{role.lower()}.{role}"
        web_port = str(self.free_port())
        command = [self.home / "bin/spark-class", classes, "--host", "127.0.0.1"]
        command += ["--webui-port", web_port, *options]
        environment = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HOME": str(self.home)}
        environment["SPARK_WORKER_DIR"] = str(self.logs / "work")
        with open(self.logs / f"{role.lower()}-{len(self.daemons)}.log", "w") as log:
            daemon = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        self.daemons.append(daemon)

    def stop(self):
        if self.session:
            self.session.stop()
        for daemon in reversed(self.daemons):
            daemon.kill()
            daemon.wait()

    def __call__(self, folder):
        from pyspark.sql import SparkSession

        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
        self.session = (
            SparkSession.builder.master(self.url())
            .appName("parachron questions")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.executor.memory", "768m")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.sql.shuffle.partitions", str(self.WORKERS))
            # A date stays the text that the other engines have.
            .config("spark.sql.sources.partitionColumnTypeInference.enabled", "false")
            .getOrCreate()
        )
        self.session.sparkContext.setLogLevel("ERROR")
        self.session.read.parquet(str(folder)).createOrReplaceTempView("clocks")
        # Answers by fewer would be no distributed engine's.
        executors = self.session.sparkContext._jsc.sc().statusTracker().getExecutorInfos
        deadline = time.monotonic() + 60
        while len(executors()) < 1 + self.WORKERS:
            if time.monotonic() > deadline:
                raise RuntimeError(f"Spark has fewer than {self.WORKERS} workers: see {self.logs}")
            time.sleep(0.1)
        return lambda sql: [tuple(row) for row in self.session.sql(sql).collect()]


ENGINES = {"DuckDB": duckdb, "DataFusion": datafusion, "ClickHouse": clickhouse}


def plain(rows):
    """Each value as text: what engines call a type is no part of an answer."""

    def text(value):
        if value is None or value == "ᴺᵁᴸᴸ":
            return None
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        return str(value)

    return [tuple(text(value) for value in row) for row in rows]


# ---------------------------------------------------------------- records of known content

DAYS = ["2026-11-19", "2026-11-20", "2026-11-22"]
COUNTS = ["disruptions", "snapshot_restored", "migrated", "pause", "long_steal"]
COUNTS += ["counter_disrupted", "steal_ms"]


def known_rows(seed):
    """Rows of 20 hosts; some change in the last night, come or go.

    Of each column that a question watches one host's changes; of one host nobody knows since
    last night by how much it is off, of one nobody ever knew, and two have a wrong date.
    """
    chance = random.Random(seed)
    rows = []
    for number in range(20):
        host = f"db-{number}.example"
        kind = number % 4
        base_us = [40, 900, 12_000, 300_000][kind]
        for day, date in enumerate(DAYS):
            if number >= 18:
                # Years ahead, and in the fleet's own days never.
                date = f"20{40 + number}-01-0{1 + day}"
            if (number, day) in ((12, 2), (13, 0), (13, 1)):
                continue
            begin_s = int(datetime.datetime.fromisoformat(f"{date}T00:00+00:00").timestamp())
            is_last = day == 2
            for minute in range(0, 1440, 12 if number else 1440):
                error_ns = chance.randrange(base_us * 1000, base_us * 4000)
                # One clock is worse since last night, and one is not known.
                error_ns *= 40 if number == 5 and is_last else 1
                row = {
                    "unix_s": begin_s + 60 * minute,
                    "version": "0.1.1" if number == 8 and is_last else "0.1.0",
                    "platform": "Xen" if number == 9 and is_last
                    else [None, "KVM", "KVM", "Hyper-V"][kind],
                    "product": "Never replied" if number == 2 else ["Server", "Firecracker", None, "Virtual Machine"][kind],
                    "kernel": "6.1.0-50" if number == 3 and is_last else "6.1.0-49",
                    "clocksource": "hpet" if number == 6 and is_last and minute > 700
                    else "acpi_pm" if number == 7
                    else ["tsc", "kvm-clock", "tsc", None][kind],
                    "state": "synchronised" if chance.random() < 0.9 else "holdover",
                    "source": "ntp b" if number == 10 and is_last else "ntp a",
                    "error_ns": error_ns,
                    "frequency_ppb": chance.randrange(-20_000, 20_000) * (kind + 1),
                    **{name: chance.choice([0] * 9 + [1, 2]) for name in COUNTS},
                }
                if number == 7 or number == 11 and is_last or chance.random() < 0.1:
                    del row["error_ns"]
                if number == 2:
                    # Without counts: a machine whose daemon never replied.
                    row = {k: v for k, v in row.items() if k not in COUNTS}
                row = {name: value for name, value in row.items() if value is not None}
                rows.append((date, host, row))
    return rows


def write(rows, writer, folder):
    lines = "".join(f"{host} {json.dumps(row)}\n" for _, host, row in rows)
    subprocess.run([writer, folder], input=lines.encode(), check=True)


# ---------------------------------------------------------------- answers by plain Python


def grouped(rows, key):
    groups = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def known(rows, name):
    return [row[name] for _, _, row in rows if name in row]


def total(rows, name):
    values = known(rows, name)
    return sum(values) if values else None


def most(rows, name):
    return max(known(rows, name), default=None)


def on(rows, date):
    return [row for row in rows if row[0] == date]


def worst_clocks(rows):
    answers = []
    for host, of in grouped(on(rows, DAYS[-1]), lambda row: row[1]).items():
        off = most(of, "error_ns")
        bad = sum(row["state"] != "synchronised" for _, _, row in of)
        unbounded = len(of) - len(known(of, "error_ns"))
        answers.append((host, DAYS[-1], off, unbounded, bad, len(of)))
    answers.sort(key=lambda it: (it[2] is not None, -(it[2] or 0), it[0]))
    return answers[:20]


def drift_by_clocksource(rows):
    answers = []
    for name, of in grouped(rows, lambda row: row[2].get("clocksource", "unknown")).items():
        errors = sorted(known(of, "error_ns"))
        # Nearest rank, the first of which 99 of 100 are no larger; up to a microsecond.
        p99 = -(-errors[-(-len(errors) * 99 // 100) - 1] // 1000) * 1000 if errors else None
        rates = known(of, "frequency_ppb")
        hosts = len({host for _, host, _ in of})
        broken = total(of, "counter_disrupted")
        unbounded = len(of) - len(errors)
        answers.append((name, hosts, len(of), unbounded, p99, min(rates), max(rates), broken))
    return sorted(answers, key=lambda it: (it[4] is not None, -(it[4] or 0), it[0]))


def restores_by_platform(rows):
    names = ["snapshot_restored", "migrated", "pause", "long_steal", "steal_ms"]
    both = lambda row: (row[2].get("platform", "unknown"), row[2].get("product", "unknown"))
    answers = []
    for key, of in grouped(rows, both).items():
        hosts = grouped(of, lambda row: row[1])
        restored = sum((total(own, names[0]) or 0) > 0 for own in hosts.values())
        answers.append((*key, len(hosts), restored, *(total(of, name) for name in names), len(of)))
    return sorted(answers, key=lambda it: (it[4] is not None, -(it[4] or 0), it[0], it[1]))


def changed_last_night(rows):
    watched = ["kernel", "clocksource", "platform", "source", "version"]
    answers = []
    for host, of in grouped(rows, lambda row: row[1]).items():
        before, after = on(of, DAYS[-2]), on(of, DAYS[-1])
        if not before or not after:
            continue
        end = [max(day, key=lambda row: row[2]["unix_s"])[2] for day in (before, after)]
        was, now = ([row.get(name, "") for name in watched] for row in end)
        off_was, off_now = most(before, "error_ns"), most(after, "error_ns")
        is_worse = off_now is not None and off_now > 1_000_000 and off_now > 2 * (off_was or 0)
        is_lost = off_now is None and off_was is not None
        if was != now or is_worse or is_lost:
            both = (end for pair in zip(was, now) for end in pair)
            answers.append((host, *both, off_was, off_now, total(after, "disruptions")))
    return sorted(answers)


def margin_by_consumer(rows):
    """The limits are read of the guide, which a test of crate fleet holds to the code."""
    guide = (QUERIES.parent.parent / "docs/guide/fleet.md").read_text()
    table = guide[guide.index("| consumer | limit, s |"):].split("\n\n")[0].splitlines()[2:]
    cells = ([cell.strip() for cell in line.split("|")] for line in table)
    limits = [(cell[1], round(float(cell[2]) * 1e9)) for cell in cells]
    hosts = grouped(on(rows, DAYS[-1]), lambda row: row[1])
    off = [most(of, "error_ns") for of in hosts.values()]
    worst = max(it for it in off if it is not None)
    answers = []
    for name, limit in limits:
        beyond = sum(it is None or it > limit for it in off)
        answers.append((name, DAYS[-1], limit, limit - worst, beyond, len(off)))
    return sorted(answers, key=lambda it: (it[2], it[0]))


EXPECTED = {
    "worst-clocks": worst_clocks,
    "drift-by-clocksource": drift_by_clocksource,
    "restores-by-platform": restores_by_platform,
    "changed-last-night": changed_last_night,
    "margin-by-consumer": margin_by_consumer,
}


def check(folder, writer):
    faults = 0
    rows = known_rows(7)
    shutil.rmtree(folder, ignore_errors=True)
    write(rows, writer, folder)
    questions = {path.stem: path.read_text() for path in sorted(QUERIES.glob("*.sql"))}
    if questions.keys() != EXPECTED.keys():
        print(f"FAILED: questions {sorted(questions)}, expected {sorted(EXPECTED)}")
        faults += 1
    for engine, begin in ENGINES.items():
        ask = begin(folder)
        for name, sql in questions.items():
            expected = plain(EXPECTED[name](rows))
            found = plain(ask(sql))
            if found == expected and expected:
                print(f"ok  {engine:<10}  {name}: {len(found)} rows")
                continue
            faults += 1
            print(f"FAILED  {engine}  {name}")
            for row in expected:
                print(f"    expected {row}")
            for row in found:
                print(f"    found    {row}")
    return faults


# ---------------------------------------------------------------- bad files


def varint(number):
    more = b""
    while number > 127:
        more, number = more + bytes([number & 127 | 128]), number >> 7
    return more + bytes([number])


def claiming(data, rows, claimed):
    """A file whose directory says so many rows, each column and group alike.

    The directory is Thrift's compact protocol: an i64 that follows the field before it is
    0x16 and twice the number as a varint.
    """
    length = int.from_bytes(data[-8:-4], "little")
    directory = data[-8 - length : -8]
    is_one, is_other = (b"\x16" + varint(2 * count) for count in (rows, claimed))
    assert directory.count(is_one) > 10
    directory = directory.replace(is_one, is_other)
    return data[: -8 - length] + directory + len(directory).to_bytes(4, "little") + b"PAR1"


def bad_files(writer, folder):
    """What is in a folder beside the records: an error or an answer, but no crash."""
    import pyarrow
    import pyarrow.parquet

    faults = 0
    shutil.rmtree(folder, ignore_errors=True)
    # All in one group.
    many = [(None, "evil", {"unix_s": 1795302000 + i % 60, "error_ns": i}) for i in range(241)]
    write(many, writer, folder / "many")
    data = next((folder / "many").glob("*/*/part-*.parquet")).read_bytes()
    pyarrow.parquet.write_table(pyarrow.table({"a": [1, 2]}), folder / "foreign")
    kinds = {
        "is cut short": data[: len(data) // 2],
        "is text": b"hello " * 1000,
        "is foreign": (folder / "foreign").read_bytes(),
        "claims 10^9 rows": claiming(data, 241, 1_000_000_000),
    }
    for kind, content in kinds.items():
        records = folder / kind.split()[-1]
        records.unlink(missing_ok=True)
        write(known_rows(7)[:400], writer, records)
        evil = records / "date=2026-11-22/host=evil/part-1.parquet"
        evil.parent.mkdir(parents=True)
        evil.write_bytes(content)
        for engine in ENGINES:
            asked = [sys.executable, *sys.argv, "--ask", engine, "--records", records]
            try:
                code = subprocess.run(asked, timeout=120, capture_output=True).returncode
            except subprocess.TimeoutExpired:
                code = "no answer in 120 s"
            word = {0: "answered", TOLD: "refused, and said so"}.get(code, f"FAILED: {code}")
            # No answer can be right without what was cut off.
            is_bad = code not in (0, TOLD) or kind in ("is cut short", "is text") and code != TOLD
            faults += is_bad
            print(f"{'BAD' if is_bad else 'ok '} {engine:<10}  a file that {kind}: {word}")
    return faults


TOLD = 9


def ask_one(engine, folder):
    try:
        # One that reads columns in all its parts: DataFusion counts hosts, which are in no
        # file, as often as a directory claims, for minutes.
        print(ENGINES[engine](folder)((QUERIES / "drift-by-clocksource.sql").read_text()))
    except Exception as why:
        print(why)
        return TOLD
    return 0


# ---------------------------------------------------------------- many rows


def make(folder, count):
    """Days of 1,000 hosts, a file a day, as docs/guide/fleet-records.md merges them.

    DISTINCT_DAYS are made; other days are the same files once more.
    """
    import duckdb as engine

    db = engine.connect()
    db.execute("set threads to 2")
    number = "coalesce(try_cast(hash(i + day * 1440000) % {} as bigint), 0)".format
    zero = lambda name: f"case when {number(50_000)} = 7 then 1 else 0 end::bigint as {name}"
    day = 0
    while day * 1_440_000 < count:
        date = datetime.date(2026, 1, 1) + datetime.timedelta(days=day)
        begin_s = int(datetime.datetime.fromisoformat(f"{date}T00:00+00:00").timestamp())
        path = folder / f"date={date}"
        path.mkdir(parents=True)
        rows = min(1_440_000, count - day * 1_440_000)
        if day >= DISTINCT_DAYS and rows == 1_440_000:
            earlier = datetime.date(2026, 1, 1) + datetime.timedelta(days=day - DISTINCT_DAYS)
            os.link(folder / f"date={earlier}/part-0.parquet", path / "part-0.parquet")
            day += 1
            continue
        db.execute(f"""copy (
            select 'db-' || (i // 1440) as host, {begin_s} + 60 * (i % 1440) as unix_s,
                '0.1.0' as version, ['KVM', 'Hyper-V', 'none'][1 + (i // 1440) % 3] as platform,
                'product ' || (i // 1440) % 7 as product, '6.1.0-' || case when (i // 1440) % 14 = day % 14 then 50 else 49 end as kernel,
                ['tsc', 'kvm-clock', 'hpet', 'acpi_pm', 'hyperv'][1 + (i // 1440) % 5]
                    as clocksource,
                case when {number(100)} = 3 then 'holdover' else 'synchronised' end as state,
                'ntp ' || (i // 1440) % 4 as source,
                {number(1_000_000)} - 500000 as offset_ns, {number(300_000)} as bound_ns,
                50000 + {number(20_000_000)} as error_ns, {number(64)} as measured_age_s,
                {number(40_000)} - 20000 as frequency_ppb, 30 + {number(20)} as read_ns,
                null::bigint as restored_unix_s, {number(300)} as steal_ms, 4::bigint as cpus,
                {", ".join(zero(name) for name in [
                    "disruptions", "steered", "clock_set", "leap_second", "suspend", "pause",
                    "snapshot_restored", "migrated", "source_switched", "long_steal",
                    "host_stepped", "counter_disrupted", "step", "slew", "makestep", "refused",
                    "failed", "findings"])}
            from (select range as i, {day}::bigint as day from range({rows}))
        ) to '{path}/part-0.parquet' (format parquet, compression snappy)""")
        day += 1


def timed(folder, count, is_made):
    faults = 0
    if not is_made:
        make(folder, count)
    size = sum(path.stat().st_size for path in folder.glob("*/*.parquet"))
    print(f"{count} rows, {size / 1e6:.0f} MB, {CPUS} CPUs")
    answers = {}
    for engine, begin in ENGINES.items():
        ask = begin(folder)
        for path in sorted(QUERIES.glob("*.sql")):
            before = time.monotonic()
            found = plain(ask(path.read_text()))
            took = time.monotonic() - before
            is_same = answers.setdefault(path.stem, found) == found and found
            faults += took > BAR_S or not is_same
            word = "ok" if is_same else "ANOTHER ANSWER"
            print(f"{engine:<10}  {path.stem:<22} {took:6.2f} s  {word}", flush=True)
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", type=pathlib.Path, required=True, help="a scratch folder")
    parser.add_argument("--writer", type=pathlib.Path, help="example minutes of parachron-records")
    parser.add_argument("--own", type=pathlib.Path, help="parachron-query, to be asked too")
    parser.add_argument("--spark", action="store_true", help="ask a cluster of Spark too")
    parser.add_argument("--rows", type=int, help="also time the questions over so many rows")
    parser.add_argument("--only-make", action="store_true", help="make the rows, and end")
    parser.add_argument("--made", action="store_true", help="they are made already")
    parser.add_argument("--ask", help="ask one engine of --records, and end")
    parser.add_argument("--records", type=pathlib.Path)
    args = parser.parse_args()
    args.target.mkdir(parents=True, exist_ok=True)
    if args.own:
        ENGINES["parachron"] = own(args.own.resolve())
    if args.ask:
        return ask_one(args.ask, args.records.resolve())
    many = args.target / "many"
    if args.only_make:
        make(many, args.rows)
        return 0
    faults = 0
    if args.writer:
        faults += bad_files(args.writer, args.target / "bad")
    if args.spark:
        # Bad files are not for it: a task that fails is tried again.
        ENGINES["Spark"] = SparkCluster(args.target / "spark")
    if args.writer:
        faults += check(args.target / "known", args.writer)
    if args.rows:
        faults += timed(many, args.rows, args.made)
        shutil.rmtree(many)
    return min(faults, 1)


if __name__ == "__main__":
    sys.exit(main())
