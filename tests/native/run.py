"""Starts three servers, and runs programs that use client libraries of others against them.

run.py [--zookeeper] [--zabra BINARY] [--tls BINARY] [--fast] [--limit SECONDS]
       [--clickhouse SERVER] [CLIENT...]
Without CLIENT: all, and ClickHouse only with its program. With several servers, ZooKeeper is the first.
No client may take longer than the limit. The end is a table. Exit code 77: a package is missing, nothing was tested.
"""

import argparse
import contextlib
import importlib.util
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import servers

HERE = pathlib.Path(__file__).resolve().parent
SKIPPED = 77
FAST_S = 120
LIMIT_S = 600
REQUESTS = 50000
REQUESTS_FAST = 2000
RECORDED = HERE / "answers.txt"
JARS = ["curator-client", "curator-framework", "curator-recipes", "zookeeper", "zookeeper-jute",
        "slf4j-simple", "guava", "netty-all", "failureaccess", "jackson-databind", "jackson-core",
        "jackson-annotations"]
CURATOR = ":".join(f"/usr/share/java/{jar}.jar" for jar in JARS)


def python(name, *arguments):
    return lambda options, ensemble: [
        sys.executable, "-B", str(HERE / name), *arguments, "--control",
        str(ensemble.control_port), "--kind", ensemble.name,
        *(["--fast"] if options.fast else []),
        *(["--tls", str(ensemble.tls)] if ensemble.tls else []), ensemble.addresses]


def differential(options, ensemble):
    """ZooKeeper's answers to as many requests are recorded by a run before; the few are in git."""
    record = RECORDED if options.fast else options.record
    word = "--write" if ensemble.name == "zookeeper" else "--compare"
    count = REQUESTS_FAST if options.fast else REQUESTS
    return [sys.executable, "-B", str(HERE / "differential.py"), "--count", str(count), word,
            str(record), ensemble.addresses.split(",")[0]]


def curator(options, ensemble):
    """Compiles the checks, which need a JDK."""
    build = ensemble.data / "classes"
    build.mkdir(exist_ok=True)
    source = HERE / "java" / "CuratorChecks.java"
    subprocess.run(["javac", "-nowarn", "-cp", CURATOR, "-d", build, source], check=True,
                   timeout=FAST_S, stderr=subprocess.DEVNULL)
    return ["java", *servers.JAVA_FLAGS, "-Dorg.slf4j.simpleLogger.defaultLogLevel=off",
            "-cp", f"{CURATOR}:{build}", "CuratorChecks"]


def c_client(options, ensemble):
    """Compiles the checks, which need libzookeeper-mt-dev."""
    program = ensemble.data / "c_checks"
    subprocess.run(["gcc", "-Wall", "-Wextra", "-Werror", "-DTHREADED", "-o", program,
                    HERE / "c_checks.c", "-lzookeeper_mt"], check=True, timeout=FAST_S)
    return [program]


def node(options, ensemble):
    """Installs the library beside a copy of the checks."""
    folder = ensemble.data / "node"
    shutil.copytree(HERE / "node", folder)
    subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"],
                   cwd=folder, check=True, timeout=FAST_S, stdout=subprocess.DEVNULL)
    return ["node", folder / "checks.js"]


def clickhouse(options, ensemble):
    return [sys.executable, "-B", str(HERE / "clickhouse_checks.py"), "--program",
            options.clickhouse, "--control", str(ensemble.control_port), "--kind", ensemble.name,
            ensemble.addresses]


CLIENTS = {
    "kazoo": python("kazoo_checks.py"),
    "kazoo-suite": python("kazoo_suite.py"),
    "curator": curator,
    "c": c_client,
    "zkcli": python("zkcli_checks.py"),
    "node": node,
    "differential": differential,
    "clickhouse": clickhouse,
}


OVER_TLS = ["kazoo", "zkcli"]


def run_client(name, options, ensemble):
    """Returns "passed" or what else, and the seconds. A program is ended with all it has started."""
    ensemble.wait_ready()  # The client before may have killed one.
    began = time.monotonic()
    command = CLIENTS[name](options, ensemble)
    child = subprocess.Popen(command, env=servers.environment(ensemble), stdin=subprocess.DEVNULL,
                             start_new_session=True)
    try:
        status = child.wait(FAST_S if options.fast else options.limit)
    except subprocess.TimeoutExpired:
        status = "not ended in time"
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    word = "passed" if status == 0 else f"FAILED ({status})"
    seconds = time.monotonic() - began
    print(f"{name} on {ensemble.name}: {word}, {seconds:.0f} s", flush=True)
    return word, seconds


def run_kind(kind, options):
    """Runs all chosen clients on servers of this kind; returns what each did."""
    with tempfile.TemporaryDirectory(prefix="zabra-native-") as data:
        ensemble = servers.make(kind, data, getattr(options, kind))
        try:
            names = [name for name in options.chosen if kind != "tls" or name in OVER_TLS]
            results = {name: run_client(name, options, ensemble) for name in names}
            complaints = ensemble.complaints()
            if complaints or any(word != "passed" for word, _ in results.values()):
                print(*complaints, ensemble.tail(), sep="\n")
        finally:
            ensemble.close()
    if complaints:
        results["servers"] = (f"FAILED ({len(complaints)} complaints)", 0)
    return results


def print_table(results):
    print("client", *results, sep="\t")
    for name in dict.fromkeys(name for rows in results.values() for name in rows):
        print(name, *(f"{word} {seconds:.0f} s" for word, seconds in
                      (rows.get(name, ("-", 0)) for rows in results.values())), sep="\t")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--zookeeper", action="store_true")
    parser.add_argument("--zabra")
    parser.add_argument("--tls", help="the binary of zabra, for clients over TLS")
    parser.add_argument("--fast", action="store_true")
    parser.add_argument("--record", type=pathlib.Path, default="build/native-answers.txt")
    parser.add_argument("--limit", type=int, default=LIMIT_S)
    parser.add_argument("--clickhouse")
    parser.add_argument("clients", nargs="*", choices=[*CLIENTS, []])
    options = parser.parse_args()
    kinds = [kind for kind in ("zookeeper", "zabra", "tls") if getattr(options, kind)]
    if not kinds:
        parser.error("give --zookeeper, --zabra BINARY or --tls BINARY, or several")
    if not importlib.util.find_spec("kazoo"):
        print("skipped: the package python3-kazoo is missing, or not for", sys.executable)
        sys.exit(SKIPPED)
    options.chosen = options.clients or [name for name in CLIENTS
                                         if name != "clickhouse" or options.clickhouse]
    results = {kind: run_kind(kind, options) for kind in kinds}
    print_table(results)
    sys.exit(any(word != "passed" for rows in results.values() for word, _ in rows.values()))


main()
