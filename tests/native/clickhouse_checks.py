"""A replicated table of two ClickHouse servers, coordinated by the three servers.

clickhouse_checks.py --program CLICKHOUSE_SERVER --control PORT [--kind NAME] [--kills N] ADDRESSES
Clients insert, and repeat an insert that was not acknowledged, while the leader of the coordinators
is killed again and again. At the end both copies have each acknowledged row once, and no other.
"""

import argparse
import pathlib
import random
import tempfile
import threading
import time

from clickhouse import SERVERS, Pair, QueryError, ask_control
from servers import ask

TABLE = "rows"
ROOT = "/clickhouse/tables"
WRITERS = 4
ROWS = 25             # Of one insert.
BETWEEN_KILLS = 40    # Acknowledged inserts.
INSERT_S = 90         # An insert that is repeated for this long is a failure.
WAIT_S = 120
KILL_WAIT_S = 60
POLL_S = 0.1
RETRY_S = 0.2
SEED = 11


def equal(got, wanted):
    assert got == wanted, f"{got!r} instead of {wanted!r}"


def wait(condition, what, seconds=WAIT_S):
    """The condition may raise QueryError meanwhile."""
    end = time.monotonic() + seconds
    last = None
    while True:
        try:
            held = condition()
            if held:
                return held
        except QueryError as error:
            last = error
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what}; last error: {last}")
        time.sleep(POLL_S)


def everywhere(pair, query, text, what):
    for server in pair.servers:
        try:
            wait(lambda server=server: server.ask(query) == text, f"{what} on {server.name}")
        except AssertionError as error:
            raise AssertionError(f"{query}: {server.ask(query)!r} instead of {text!r}") from error


def create_table(pair, name, columns):
    for server in pair.servers:
        wait(lambda server=server: server.ask(
            f"CREATE TABLE IF NOT EXISTS {name} ({columns}) ENGINE = "
            f"ReplicatedMergeTree('{ROOT}/{name}', '{{replica}}') PARTITION BY day ORDER BY id") == "",
             f"table {name} on {server.name}")


def check_features(pair, _options):
    """What ClickHouse uses its coordinator for, while nothing fails."""
    first, second = pair.servers
    create_table(pair, "small", "day Date, id UInt64, text String")
    block = b"".join(b"2026-01-0%d\t%d\ttext %d\n" % (n % 3 + 1, n, n) for n in range(30))
    first.ask("INSERT INTO small FORMAT TSV", block)
    everywhere(pair, "SELECT count() FROM small", "30", "a replicated insert")
    second.ask("INSERT INTO small FORMAT TSV", block)  # The same block again: known by its hash.
    everywhere(pair, "SELECT count(), uniqExact(id) FROM small", "30\t30", "a repeated insert")
    first.ask("INSERT INTO small FORMAT TSV", b"2026-01-03\t1000\tboth\n", insert_quorum=2)
    equal(second.ask("SELECT text FROM small WHERE id = 1000", select_sequential_consistency=1), "both")
    second.ask("INSERT INTO small FORMAT TSV", b"2026-01-01\t1001\tsecond part\n")
    everywhere(pair, "SELECT count() FROM small", "32", "a second part")
    second.ask("ALTER TABLE small ADD COLUMN more UInt8 DEFAULT 7", replication_alter_partitions_sync=2)
    everywhere(pair, "SELECT sum(more) FROM small", str(32 * 7), "a new column")
    first.ask("ALTER TABLE small DROP PARTITION '2026-01-02'", replication_alter_partitions_sync=2)
    everywhere(pair, "SELECT count() FROM small", "22", "a dropped partition")
    second.ask("OPTIMIZE TABLE small PARTITION '2026-01-01' FINAL", optimize_throw_if_noop=1)
    everywhere(pair, "SELECT count() FROM system.parts WHERE table = 'small' AND active "
               "AND partition_id = '20260101'", "1", "a merge")
    names = first.ask(f"SELECT name FROM system.zookeeper WHERE path = '{ROOT}/small/replicas' "
                      "ORDER BY name")
    equal(names, "r1\nr2")
    first.ask("CREATE TABLE spread ON CLUSTER both (id UInt64) ENGINE = Log")
    everywhere(pair, "EXISTS TABLE spread", "1", "a query for the cluster")
    for server in pair.servers:
        server.ask("DROP TABLE small")
    equal(first.ask(f"SELECT count() FROM system.zookeeper WHERE path = '{ROOT}'"), "0")


class Writers:
    """Threads that insert blocks; a block is repeated until a server has acknowledged it."""

    def __init__(self, pair):
        self.pair = pair
        self.lock = threading.Lock()
        self.acknowledged = 0
        self.retries = 0
        self.next_block = 0
        self.last = time.monotonic()
        self.longest = 0.0
        self.errors = {}
        self.failure = None
        self.ends = threading.Event()
        self.threads = [threading.Thread(target=self.run, args=(n,)) for n in range(WRITERS)]
        for thread in self.threads:
            thread.start()

    def run(self, number):
        try:
            while not self.ends.is_set():
                with self.lock:
                    block = self.next_block
                    self.next_block += 1
                self.insert(number, block)
        except BaseException as error:
            self.failure = error
            self.ends.set()

    def insert(self, number, block):
        """Each attempt has the same bytes, so that ClickHouse recognizes a repeated block."""
        rows = b"".join(b"2026-02-0%d\t%d\trow %d\n" % (block % 4 + 1, block * ROWS + n, block * 31 + n)
                        for n in range(ROWS))
        end = time.monotonic() + INSERT_S
        attempt = number
        while True:
            server = self.pair.servers[attempt % SERVERS]
            try:
                server.ask(f"INSERT INTO {TABLE} FORMAT TSV", rows)
                break
            except QueryError as error:
                with self.lock:
                    self.retries += 1
                    code = str(error).partition("Code: ")[2].partition(",")[0] or "connection"
                    self.errors[code] = self.errors.get(code, 0) + 1
                if time.monotonic() > end:
                    raise
                time.sleep(RETRY_S)
                attempt += 1
        with self.lock:
            self.acknowledged += 1
            self.longest = max(self.longest, time.monotonic() - self.last)
            self.last = time.monotonic()

    def wait_for(self, count):
        end = time.monotonic() + WAIT_S
        while self.acknowledged < count:
            if self.failure:
                raise self.failure
            assert time.monotonic() < end, f"{self.acknowledged} of {count} inserts: {self.errors}"
            time.sleep(POLL_S)

    def stop(self):
        self.ends.set()
        for thread in self.threads:
            thread.join()
        if self.failure:
            raise self.failure


def leader(options):
    """The port of the leader, and whether all servers serve."""
    modes = {port: ask(port, "srvr") for port in options.ports}
    leaders = [port for port, text in modes.items() if "Mode: leader" in text]
    return leaders[0] if leaders and all("Mode: " in text for text in modes.values()) else None


def check_kills(pair, options):
    create_table(pair, TABLE, "day Date, id UInt64, text String")
    pick = random.Random(SEED)
    began = time.monotonic()
    writers = Writers(pair)
    try:
        for n in range(options.kills):
            writers.wait_for(writers.acknowledged + pick.randrange(1, BETWEEN_KILLS))
            port = wait(lambda: leader(options), "all coordinators serve", KILL_WAIT_S)
            if n == options.kills // 2:
                pair.servers[1].kill()
                pair.servers[1].start()
                wait(lambda: is_writable(pair.servers[1]), "the killed server writes again")
            assert ask_control(options.control, f"kill {port}")
        writers.wait_for(writers.acknowledged + BETWEEN_KILLS)
    finally:
        writers.stop()
    settle(pair)
    lost = drop_lost_parts(pair)
    count = writers.acknowledged
    equal(count, writers.next_block)
    wanted = "".join(f"{n}\trow {n // ROWS * 31 + n % ROWS}\n" for n in range(count * ROWS))
    for server in pair.servers:
        got = server.ask(f"SELECT id, text FROM {TABLE} ORDER BY id") + "\n"
        assert got == wanted, difference(server.name, got, wanted)
    equal(*(server.ask(f"SELECT groupArray((name, rows)) FROM (SELECT name, rows FROM system.parts "
                       f"WHERE table = '{TABLE}' AND active ORDER BY name)") for server in pair.servers))
    print(f"ClickHouse on {options.kind}: {options.kills} leaders killed, {count} inserts of {ROWS} "
          f"rows acknowledged, {writers.retries} retries (codes {writers.errors}), longest gap "
          f"{writers.longest:.1f} s, {lost} parts of lost commits, {time.monotonic() - began:.0f} s; both copies are equal")


def difference(name, got, wanted):
    got, wanted = got.splitlines(), wanted.splitlines()
    missing, more = set(wanted) - set(got), set(got) - set(wanted)
    return (f"{name}: {len(got)} rows instead of {len(wanted)}; missing {sorted(missing)[:5]}, "
            f"more {sorted(more)[:5]}, {len(got) - len(set(got))} twice")


def is_writable(server):
    return server.ask(f"SELECT is_readonly FROM system.replicas WHERE table = '{TABLE}'") == "0"


def settle(pair):
    """Both servers have nothing left to fetch and nothing to merge, and wait for no coordinator."""
    def settled():
        for server in pair.servers:
            server.ask(f"SYSTEM SYNC REPLICA {TABLE}")
        return all(server.ask(
            "SELECT is_readonly, is_session_expired, queue_size, absolute_delay, active_replicas "
            f"FROM system.replicas WHERE table = '{TABLE}'") == "0\t0\t0\t0\t2"
            for server in pair.servers)
    for server in pair.servers:
        wait(lambda server=server: is_writable(server), f"{server.name} writes again")
    wait(settled, "both servers are in step")


def drop_lost_parts(pair):
    """Returns how many parts only one server has. When the coordinator has lost the commit of an
    insert, ClickHouse keeps the part until it starts again, or for five minutes, beside that of the
    repeated insert."""
    lost = 0
    for server in pair.servers:
        local = server.ask(f"SELECT name FROM system.parts WHERE table = '{TABLE}' AND active")
        common = server.ask("SELECT name FROM system.zookeeper WHERE path = "
                            f"'{ROOT}/{TABLE}/replicas/{server.name}/parts'")
        lost += len(set(local.split()) - set(common.split()))
        server.kill()
        server.start()
    settle(pair)
    return lost


CHECKS = [check_features, check_kills]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", required=True)
    parser.add_argument("--control", type=int, required=True)
    parser.add_argument("--kind", default="")
    parser.add_argument("--kills", type=int, default=6)
    parser.add_argument("addresses")
    options = parser.parse_args()
    options.ports = [int(address.rsplit(":", 1)[1]) for address in options.addresses.split(",")]
    with tempfile.TemporaryDirectory(prefix="zabra-clickhouse-") as data:
        pair = Pair(str(pathlib.Path(options.program).resolve()), data, options.addresses)
        try:
            for one in CHECKS:
                began = time.monotonic()
                one(pair, options)
                print(f"ok {one.__name__} {time.monotonic() - began:.1f} s", flush=True)
        except BaseException:
            print(*(server.tail() for server in pair.servers), sep="\n")
            raise
        finally:
            pair.close()


if __name__ == "__main__":
    main()
