#!/usr/bin/env python3
"""One load of ZooKeeper's protocol on ZooKeeper and on zabra, in turn: three servers of each.

usage: zookeeper.py ZABRA LOAD [--rounds N] [--ms N] [--warm MS] [--data DIR] [PART...]

LOAD is build/release/tests/bench/bench.bench_native. Both ensembles run side by side on 127.0.0.1,
with their data on the same disk, and acknowledge after a sync; each measurement goes to one, then
to the other, so that a machine that gets slower does not matter. The rows show the medians of the
rounds, and the median of the ratios round by round. CPU is the time of the three servers.
"""
import argparse
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "native"))
import servers  # noqa: E402

KINDS = ["zookeeper", "zabra"]
ROUNDS = 3
MEASURE_MS = 3000
WARM_MS = 15000     # Load of each kind until the JVM has compiled what it runs.
WATCHERS = 1000
IDLE = 10000
STORM = 10000
# Rows of a rate: name, part, connections, requests of a connection without a reply.
RATES = [("reads, 30 connections, one at a time", "reads", 30, 1),
         ("reads, 30 connections, 100 at once", "reads", 30, 100),
         ("writes, 30 connections, one at a time", "writes", 30, 1),
         ("writes, 30 connections, 100 at once", "writes", 30, 100),
         ("writes, 1 connection to a follower, one at a time", "writes", 1, 1)]


class ZooKeeper(servers.ZooKeeper):
    """As an operator runs it: a heap of 1 GiB, the collector and the compiler that Java chooses."""

    def configure(self, n):
        super().configure(n)
        with (self.data / f"{n + 1}.cfg").open("a") as file:
            # Later lines count. The queue is 50 by default, and a storm would wait for lost SYNs.
            file.write("tickTime=2000\nclientPortListenBacklog=4096\n")

    def command(self, n):
        flags = ["-Xmx1g", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
        return ["java", *flags, "-cp", servers.JAVA_CLASSES,
                "org.apache.zookeeper.server.quorum.QuorumPeerMain", f"{self.data}/{n + 1}.cfg"]


class Side:
    """An ensemble and the load client for it."""

    def __init__(self, kind, data, zabra, load):
        home = pathlib.Path(data) / kind
        home.mkdir()
        self.kind, self.load = kind, load
        keys = ["maxConnections=30000", "maxConnectionsPerAddress=30000"]
        self.servers = (ZooKeeper(home) if kind == "zookeeper" else
                        servers.Zabra(home, zabra, keys))

    def pids(self):
        return [child.pid for child in self.servers.children]

    def command(self, part, only=None, **keys):
        """The load client's command. `only`: the one server that it uses; the CPU is that of all."""
        used = [n for n in range(servers.SERVERS) if only in (None, n)]
        ports = ",".join(str(self.servers.ports[n]) for n in used)
        used += [n for n in range(servers.SERVERS) if n not in used]
        pids = ",".join(str(self.pids()[n]) for n in used)
        return [self.load, part, f"ports={ports}", f"pids={pids}",
                *(f"{name}={value}" for name, value in keys.items())]

    def run(self, part, **keys):
        """Runs a part; returns its figures. One connection goes to a follower."""
        if keys.get("connections") == 1:
            keys["only"] = self.follower()
        done = subprocess.run(self.command(part, **keys), capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"{self.kind}, {part}: {done.stderr.strip()}\n{self.servers.tail()}")
        return figures(done.stdout)

    def leader(self):
        for n, port in enumerate(self.servers.ports):
            if "Mode: leader" in servers.ask(port, "srvr"):
                return n
        raise SystemExit(f"{self.kind}: no leader\n{self.servers.tail()}")

    def follower(self):
        return (self.leader() + 1) % servers.SERVERS

    def resident_kib(self, n):
        with open(f"/proc/{self.pids()[n]}/status", encoding="ascii") as status:
            return int(re.search(r"RssAnon:\s+(\d+)", status.read()).group(1))

    def used_kib(self, n):
        """Memory that is in use: of ZooKeeper the heap after a full collection."""
        if self.kind == "zabra":
            return self.resident_kib(n)
        subprocess.run(["jcmd", str(self.pids()[n]), "GC.run"], check=True, capture_output=True)
        info = subprocess.run(["jcmd", str(self.pids()[n]), "GC.heap_info"], check=True,
                              capture_output=True, text=True).stdout
        return sum(int(kib) for kib in re.findall(r"heap +total \d+K, used (\d+)K", info))


def figures(line):
    return {name: float(value) for name, value in re.findall(r"(\w+)=([\d.]+)", line)}


def medians(values):
    return [statistics.median(side) for side in values]


def ratio(values, higher=True):
    """How many times better zabra is, round by round: the median, and the range of several."""
    ratios = [b / a if higher else a / b for a, b in zip(*values) if min(a, b) > 0]
    if not ratios:
        return ""
    spread = f" ({min(ratios):.1f} to {max(ratios):.1f})" if len(ratios) > 1 else ""
    return f"{statistics.median(ratios):.1f}{spread}"


def show(name, found, key, form="{:,.0f} ms", higher=False):
    """A row: the medians of ZooKeeper and zabra, and how many times better zabra is."""
    values = column(found, key)
    old, new = medians(values)
    print(f"| {name} | {form.format(old)} | {form.format(new)} | {ratio(values, higher)} |", flush=True)


def each(sides, rounds, run):
    """The figures of each round, by side; which side begins alternates."""
    found = ([], [])
    for n in range(rounds):
        for i in ((0, 1), (1, 0))[n % 2]:
            found[i].append(run(sides[i]))
    return found


def column(found, name):
    return [[figure[name] for figure in side] for side in found]


def warm(sides, options):
    zookeeper = sides[KINDS.index("zookeeper")]
    for part in ("reads", "writes"):
        for window in (1, 100):
            zookeeper.run(part, window=window, ms=options.warm // 4)


def rates(sides, options):
    warm(sides, options)
    print("\n| 1 KiB values, three servers | | a second | p50, ms | p99, ms "
          "| CPU of the servers, ms per 1,000 | CPU of the client |\n|---|---|---|---|---|---|---|")
    for name, part, connections, window in RATES:
        found = each(sides, options.rounds, lambda side: side.run(
            part, connections=connections, window=window, ms=options.ms))
        rate, p50, p99, cpu, client = (
            column(found, key) for key in ("rate", "p50_us", "p99_us", "cpu_ms", "client_ms"))
        for i, kind in enumerate(("ZooKeeper", "zabra")):
            print(f"| {'' if i else name} | {kind} | {medians(rate)[i]:,.0f} | "
                  f"{medians(p50)[i] / 1000:.2f} | {medians(p99)[i] / 1000:.2f} | "
                  f"{medians(cpu)[i]:.2f} | {medians(client)[i]:.2f} |")
        print(f"| | zabra is better by | {ratio(rate)} | {ratio(p50, False)} | {ratio(p99, False)} | "
              f"{ratio(cpu, False)} | |", flush=True)


HEAD = "\n| | ZooKeeper | zabra | zabra is better by |\n|---|---|---|---|"


def watchers(sides, options):
    found = each(sides, options.rounds, lambda side: side.run("watchers", connections=WATCHERS))
    print(f"{HEAD}\n| {WATCHERS:,} one-shot watchers of one znode | | | |")
    show("— all have the event", found, "event_ms", "{:.1f} ms")
    show("— all have read again, with a new watch", found, "all_ms", "{:.1f} ms")
    show("— the slowest of 20 rounds", found, "worst_ms", "{:.1f} ms")
    show("— CPU of the servers, a round", found, "cpu_ms", "{:.1f} ms")


def idle_of(side):
    """KiB per idle connection and session at its server, and per session at another one."""
    at = side.follower()
    other = (at + 1) % servers.SERVERS
    before = [side.used_kib(n) for n in (at, other)]
    with subprocess.Popen(side.command("idle", only=at, connections=IDLE),
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        if child.stdout.readline() != f"idle={IDLE}\n":
            raise SystemExit(f"{side.kind}: the idle clients do not connect\n{side.servers.tail()}")
        time.sleep(1)  # Reports of sessions to the leader are part of what they need.
        after = [side.used_kib(n) for n in (at, other)]
        child.communicate("\n")
    # The heap of a server may have become smaller, by what it had to collect before.
    return {"at": (after[0] - before[0]) / IDLE, "other": max(0, after[1] - before[1]) / IDLE}


def idle(sides, _options):
    found = each(sides, 1, idle_of)
    print(f"{HEAD}\n| memory of each of {IDLE:,} idle sessions | | | |")
    show("— at the server of its connection", found, "at", "{:.2f} KiB")
    show("— at another server", found, "other", "{:.2f} KiB")


def storm(sides, _options):
    """The last part: it kills the leaders."""
    found = each(sides, 1, lambda side: side.run("storm", connections=STORM, victim=side.leader()))
    print(f"{HEAD}\n| {STORM:,} sessions | | | |")
    show("— all opened at once", found, "open_ms")
    show("— then kill -9 of the leader: connections lost", found, "losses", "{:,.0f}")
    show("— sessions lost", found, "expired", "{:,.0f}")
    show("— the first session is taken over after", found, "first_ms")
    show("— all sessions are taken over after", found, "served_ms")
    show("— each of them has written after", found, "written_ms")


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as info:
        model = re.search(r"model name\s*: (.*)", info.read())
    return (f"{os.cpu_count()} processors ({model.group(1) if model else 'unknown'}), "
            f"load average {os.getloadavg()[0]:.1f} at the start")


def measure(options):
    with tempfile.TemporaryDirectory(prefix="zabra-zookeeper-", dir=options.data) as data:
        sides = []
        try:
            print(machine())
            for kind in KINDS:
                sides.append(Side(kind, data, options.zabra, options.load))
            for side in sides:
                side.run("fill")
            for part, run in PARTS.items():
                if part in options.parts:
                    run(sides, options)
            for side in sides:
                for line in side.servers.complaints():
                    if "ended with -9" not in line:
                        raise SystemExit(f"{side.kind}: {line}")
        finally:
            for side in sides:
                side.servers.close()


# In this order: memory of idle clients is measured before others have left free memory behind.
PARTS = {"idle": idle, "rates": rates, "watchers": watchers, "storm": storm}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("zabra")
    parser.add_argument("load")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--ms", type=int, default=MEASURE_MS, help="of each measurement")
    parser.add_argument("--warm", type=int, default=WARM_MS)
    parser.add_argument("--data")
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    options = parser.parse_intermixed_args()
    options.parts = options.parts or list(PARTS)
    begin = time.monotonic()
    measure(options)
    print(f"{time.monotonic() - begin:.0f} s")


if __name__ == "__main__":
    main()
