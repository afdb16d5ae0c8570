"""Runs clang-tidy over the compile commands and remembers the results.

A result is kept under a hash of everything it depends on: the file, all project headers it reaches,
its compile command, the configuration, the checks and the tool's version. A second run costs only the
hashing.
"""

import hashlib
import json
import os
import re
import shutil

from common import SKIPPED, compile_commands, folder_of, include_graph, run, run_all, sources

ANALYZER = "clang-analyzer-*"
# Files of one process. In one process for many files the analyzer reports false errors about va_list.
TOGETHER = {"clang_tidy": 16, "analyzer": 1}
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


def arguments(options):
    """For `analyzer` all checks, else all but those that follow the paths of each function."""
    # With the -Werror of the command clang-tidy would also report warnings that .clang-tidy omits.
    if options.check != "analyzer":
        return [f"--checks=-{ANALYZER}", "--extra-arg=-Wno-error"]
    parts = ("-Xclang", "-analyzer-config", "-Xclang", f"max-nodes={options.nodes}")
    return [f"--extra-arg={part}" for part in parts]


def analyse(options, names, paths_of):
    """{file: findings as [path, line, message]}. A finding in a header, which has no compile command,
    is one of each file that reaches the header."""
    full = [os.path.join(options.root, name) for name in names]
    result = run(["clang-tidy", "--quiet", *arguments(options), "-p", options.build, *full],
                 cwd=options.root)
    found = {name: set() for name in names}
    for match in FINDING.finditer(result.stdout):
        path = os.path.relpath(match[1], options.root)
        for name in [path] if path in found else [one for one in names if path in paths_of[one]]:
            found[name].add((path, int(match[2]), match[3]))
    if result.returncode < 0 or (result.returncode > 0 and not any(found.values())):
        for name in names:
            found[name].add((name, 1, "clang-tidy failed: " + result.stdout.strip()[-200:]))
    return {name: sorted(found[name]) for name in names}


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
    common += " ".join(arguments(options)).encode()
    cache = os.path.join(options.build, "lint-clang-tidy")
    os.makedirs(cache, exist_ok=True)
    names = [name for name in sorted(chosen) if name in texts]
    paths_of = {name: reached(graph, name) for name in names}
    kept_at = {name: os.path.join(cache, key_of(texts, paths_of[name], chosen[name], common))
               for name in names}

    def findings(group):
        found = analyse(options, group, paths_of)
        for name in group:
            with open(kept_at[name] + ".new", "w", encoding="utf-8") as file:
                json.dump(found[name], file)
            os.replace(kept_at[name] + ".new", kept_at[name])

    fresh = [name for name in names if not os.path.exists(kept_at[name])]
    size = TOGETHER[options.check]
    run_all(findings, [fresh[at:at + size] for at in range(0, len(fresh), size)])
    for name in names:
        report.look(name)
        with open(kept_at[name], encoding="utf-8") as file:
            for path, line, message in json.load(file):
                report.fail(path, line, message)
    report.notes.append(f"{len(fresh)} of {len(names)} files analysed, the others known")
    return None
