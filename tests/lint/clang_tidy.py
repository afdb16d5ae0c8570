"""Runs clang-tidy over the compile commands, one process a file, and remembers the results.

A result is kept under a hash of everything it depends on: the file, all project headers it reaches,
its compile command, the configuration and the tool's version. A second run costs only the hashing.
"""

import hashlib
import json
import os
import re
import shutil

from common import SKIPPED, compile_commands, folder_of, include_graph, run, run_all, sources

# How far the analyzer follows the paths of one function, in nodes. With its own limit (`--nodes
# 225000`) it takes ten times as long, and reports paths that cannot occur.
NODES = 2000
FINDING = re.compile(r"^(\S+?):(\d+):\d+: (?:error|warning): (.*)$", re.MULTILINE)


def is_checked(name):
    """Of the tests, checks only their shared files: all of them would double the time."""
    folder = folder_of(name)
    return name.endswith(".c") and (
        name.startswith("tests/lib/") if folder == "tests" else bool(folder))


def commands(options):
    """The commands of the files to check, one a file."""
    entries = compile_commands(options)
    if entries is None:
        return None
    chosen = {}
    for name, entry in entries:
        if is_checked(name) and os.path.exists(entry["file"]):
            chosen.setdefault(name, entry["command"])
    return chosen


def reached(graph, start):
    """The file and all project headers it includes, directly or not, sorted."""
    found, waiting = {start}, [start]
    while waiting:
        for name in graph.get(waiting.pop(), ()):
            if name not in found:
                found.add(name)
                waiting.append(name)
    return sorted(found)


def key_of(texts, paths, command, common):
    digest = hashlib.sha256(common)
    for part in [command] + [piece for path in paths for piece in (path, texts[path])]:
        digest.update(part.encode() + b"\0")
    return digest.hexdigest()


def depth(options):
    parts = ("-Xclang", "-analyzer-config", "-Xclang", f"max-nodes={options.nodes}")
    return [f"--extra-arg={part}" for part in parts]


def analyse(options, name):
    """Findings as [file, line, message]; also of headers, which have no compile command."""
    path = os.path.join(options.root, name)
    result = run(["clang-tidy", "--quiet", *depth(options), "-p", options.build, path], cwd=options.root)
    found = set()
    for match in FINDING.finditer(result.stdout):
        found.add((os.path.relpath(match[1], options.root), int(match[2]), match[3]))
    if result.returncode != 0 and not found:
        found.add((name, 1, "clang-tidy failed: " + result.stdout.strip()[-200:]))
    return sorted(found)


def check(options, report):
    chosen = commands(options)
    if chosen is None or not shutil.which("clang-tidy"):
        report.notes.append("skipped: no compile_commands.json (give --build) or no clang-tidy")
        return SKIPPED
    all_sources = sources(options.root)
    graph = include_graph(all_sources)
    texts = {source.path: source.text for source in all_sources}
    with open(os.path.join(options.root, ".clang-tidy"), "rb") as file:
        common = file.read() + run(["clang-tidy", "--version"]).stdout.encode()
    common += str(options.nodes).encode()
    cache = os.path.join(options.build, "lint-clang-tidy")
    os.makedirs(cache, exist_ok=True)

    def findings(name):
        key = key_of(texts, reached(graph, name), chosen[name], common)
        kept = os.path.join(cache, key)
        if os.path.exists(kept):
            with open(kept, encoding="utf-8") as file:
                return json.load(file), True
        found = analyse(options, name)
        with open(kept + ".new", "w", encoding="utf-8") as file:
            json.dump(found, file)
        os.replace(kept + ".new", kept)
        return found, False

    names = [name for name in sorted(chosen) if name in texts]
    results = run_all(findings, names)
    for name, (found, _) in zip(names, results):
        report.look(name)
        for path, line, message in found:
            report.fail(path, line, message)
    fresh = sum(1 for _, kept in results if not kept)
    report.notes.append(f"{fresh} of {len(names)} files analysed, the others known")
    return None
