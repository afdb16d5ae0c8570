"""Reads the calls between files out of the object files: no circle, no call that the table of
includes forbids, and no function or table without a user.

An arrow leads from a file to each file whose function or table its code names in a relocation. A
table of function pointers lies in data, and a callback that is passed in is named by the file that
passes it: neither makes an arrow for the file that calls through the pointer.
"""

import collections
import os
import re

import tables
from common import SKIPPED, compile_commands, folder_of, matches_any, run, sources, walk

OBJECT = re.compile(r" -o (\S+\.o) ")
SECTION = re.compile(r"RELOCATION RECORDS FOR \[(.*)\]:")
ADDEND = re.compile(r"[-+]0x[0-9a-f]+$")


def product(options):
    """{object file: source file below the root} of each compile command outside of tests/, or None
    when something is not built."""
    entries = compile_commands(options)
    if entries is None:
        return None
    found = {}
    for name, entry in entries:
        output = OBJECT.search(entry["command"])[1]
        if output.startswith("tests/") or folder_of(name) in ("", "tests"):
            continue
        found[os.path.join(entry["directory"], output)] = name
    return found if all(os.path.exists(path) for path in found) else None


def read_definitions(objects):
    """{symbol: source file that defines it}, for global symbols."""
    found = {}
    for line in run(["nm", "-A", "-g", "--defined-only", *objects]).stdout.split("\n"):
        path, _, rest = line.partition(":")
        if path in objects:
            found.setdefault(rest.split()[-1], objects[path])
    return {symbol: path for symbol, path in found.items() if symbol not in tables.INTERPOSED}


def read_arrows(objects, definitions):
    """{(file, file that it calls): symbols}, and all symbols that code or tables refer to."""
    arrows, named = collections.defaultdict(set), set()
    source, is_code = None, False
    for line in run(["objdump", "-r", "-w", *objects]).stdout.split("\n"):
        head, section = line.split(":")[0], SECTION.match(line)
        words = line.split()
        if head in objects:
            source = objects[head]
        elif section:
            is_code = section[1].startswith(".text")
        elif len(words) == 3 and words[1].startswith("R_"):
            symbol = ADDEND.sub("", words[2])
            named.add(symbol)
            target = definitions.get(symbol, source)
            if is_code and target != source:
                arrows[source, target].add(symbol)
    return arrows, named


def reached(graph, start):
    found, waiting = set(), [start]
    while waiting:
        for name in graph.get(waiting.pop(), ()):
            if name not in found:
                found.add(name)
                waiting.append(name)
    return found


def find_circles(pairs):
    """Sets of names that reach each other, as sorted lists, each once."""
    graph = collections.defaultdict(set)
    for source, target in pairs:
        graph[source].add(target)
    reach = {name: reached(graph, name) for name in graph}
    circles = {
        tuple(sorted(other for other in reach[name] if name in reach.get(other, ())))
        for name in graph
        if name in reach[name]
    }
    return sorted(list(circle) for circle in circles)


def check_circles(arrows, report):
    """Only circles of the table are permitted; a circle that became smaller must be updated
    there."""
    known = [set(circle) for circle in tables.CIRCLES]
    found = [set(circle) for circle in find_circles(arrows)]
    for circle in found:
        if any(circle <= other for other in known):
            continue
        for (source, target), symbols in arrows.items():
            if source in circle and target in circle:
                report.fail(source, 1, f"is in a circle of calls: it calls {target} "
                                       f"({', '.join(sorted(symbols))})")
    for circle in known:
        if circle not in found:
            report.fail("tests/lint/tables.py", 1, "CIRCLES has a circle that is smaller now: "
                                                   f"{' '.join(sorted(circle))}")


def declaring_headers(root):
    """Returns a function that finds the headers of a folder that name a symbol."""
    texts = {}
    for path in walk(root, (".h",)):
        with open(os.path.join(root, path), encoding="utf-8") as file:
            texts.setdefault(folder_of(path), {})[path] = set(re.findall(r"\w+", file.read()))
    return lambda folder, symbol: [
        path for path, words in texts.get(folder, {}).items() if symbol in words
    ]


def check_folders(root, arrows, report):
    """A folder may call a function if it may include the declaration; folders have no circle of
    calls."""
    declared_in = declaring_headers(root)
    between = collections.defaultdict(set)
    for (source, target), symbols in arrows.items():
        folder, other = folder_of(source), folder_of(target)
        if folder == other or not symbols - tables.CALLS_LEFT:
            continue
        between[folder, other].add(source)
        for symbol in sorted(symbols - tables.CALLS_LEFT):
            headers = declared_in(other, symbol) or [re.sub(r"\.\w+$", ".h", target)]
            if not any(matches_any(tables.MAY_INCLUDE.get(folder, []), name) for name in headers):
                report.fail(source, 1, f"calls {symbol} of {target}: {folder}/ may not include "
                                       f"{' or '.join(headers)}")
    for circle in find_circles(between):
        for (folder, other), files in between.items():
            if folder in circle and other in circle:
                report.fail(sorted(files)[0], 1, f"is in a circle of folders: {folder}/ calls "
                                                 f"{other}/")


def check_use(root, definitions, named, report):
    """The product uses each function. The compiler may have inlined it, so the text decides in the
    end: a name that occurs once in sources (its definition) and once in headers (its declaration)
    has no caller."""
    counts = {".c": collections.Counter(), ".h": collections.Counter()}
    for source in sources(root):
        if source.folder != "tests":
            counts[source.path[-2:]].update(re.findall(r"\w+", source.bare))
    for symbol, path in definitions.items():
        if symbol in named or symbol in tables.FOR_TESTS:
            continue
        if counts[".c"][symbol] <= 1 and counts[".h"][symbol] <= 1:
            report.fail(path, 1, f"{symbol} has no user in the product")


def check(options, report):
    objects = product(options)
    if not objects:
        report.notes.append("skipped: the product is not built")
        return SKIPPED
    for source in objects.values():
        report.look(source)
    definitions = read_definitions(objects)
    arrows, named = read_arrows(objects, definitions)
    check_circles(arrows, report)
    check_folders(options.root, arrows, report)
    check_use(options.root, definitions, named, report)
    return None
