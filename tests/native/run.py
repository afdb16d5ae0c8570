"""Starts three servers, and runs programs that use client libraries of others against them.

run.py --zookeeper | --zabra BINARY [--fast] [--limit SECONDS] [--clickhouse SERVER] [CLIENT...]
Without CLIENT: all, and ClickHouse only with its program. Exit code 77: a package is missing, nothing was tested.
"""

import argparse
import importlib.util
import pathlib
import shutil
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
        *(["--fast"] if options.fast else []), ensemble.addresses]


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


def run_client(name, options, ensemble):
    began = time.monotonic()
    command = CLIENTS[name](options, ensemble)
    try:
        status = subprocess.run(command, env=servers.environment(ensemble), check=False,
                                stdin=subprocess.DEVNULL,
                                timeout=FAST_S if options.fast else options.limit).returncode
    except subprocess.TimeoutExpired:
        status = "not ended in time"
    print(f"{name} on {ensemble.name}: {'FAILED' if status else 'passed'}, "
          f"{time.monotonic() - began:.0f} s", flush=True)
    return not status


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--zookeeper", action="store_true")
    parser.add_argument("--zabra")
    parser.add_argument("--fast", action="store_true")
    parser.add_argument("--record", type=pathlib.Path, default="build/native-answers.txt")
    parser.add_argument("--limit", type=int, default=LIMIT_S)
    parser.add_argument("--clickhouse")
    parser.add_argument("clients", nargs="*", choices=[*CLIENTS, []])
    options = parser.parse_args()
    if bool(options.zabra) == options.zookeeper:
        parser.error("give --zookeeper or --zabra BINARY")
    if not importlib.util.find_spec("kazoo"):
        print("skipped: the package python3-kazoo is missing, or not for", sys.executable)
        sys.exit(SKIPPED)
    with tempfile.TemporaryDirectory(prefix="zabra-native-") as data:
        ensemble = servers.make("zookeeper" if options.zookeeper else "zabra", data, options.zabra)
        try:
            chosen = options.clients or [name for name in CLIENTS
                                         if name != "clickhouse" or options.clickhouse]
            passed = [run_client(name, options, ensemble) for name in chosen]
            complaints = ensemble.complaints()
            if complaints or not all(passed):
                print(*complaints, ensemble.tail(), sep="\n")
        finally:
            ensemble.close()
    sys.exit(bool(complaints) or not all(passed))


main()
