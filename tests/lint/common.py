"""Shared by the checks: reading sources, walking the tree, collecting and printing violations."""

import functools
import json
import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor

import tables

SKIPPED = 77  # SKIP_RETURN_CODE in CMakeLists.txt.
JOBS = 2

COMMENT = r"//[^\n]*|/\*.*?\*/"
LITERAL = r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
TOKEN = re.compile(f"(?P<comment>{COMMENT})|(?P<literal>{LITERAL})", re.DOTALL)
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


class Report:
    """Collects the checked items and their violations."""

    def __init__(self):
        self.items = set()
        self.failed = set()
        self.lines = []
        self.notes = []

    def look(self, item):
        self.items.add(item)

    def fail(self, item, line, message):
        self.items.add(item)
        self.failed.add(item)
        self.lines.append((item, line, message))

    def finish(self):
        for item, line, message in sorted(set(self.lines)):
            print(f"{item}:{line}: {message}")
        for note in self.notes:
            print(note)
        print(f"{len(self.items - self.failed)} passed, {len(self.failed)} failed")
        return 1 if self.failed else 0


class Source:
    """One C file: its text, without comments, and without comments and literals."""

    def __init__(self, root, path):
        self.path = path
        with open(os.path.join(root, path), encoding="utf-8") as file:
            self.text = file.read()
        self.folder = folder_of(path)

    @functools.cached_property
    def code(self):
        return blank(self.text, comments=True, literals=False)

    @functools.cached_property
    def bare(self):
        return blank(self.text, comments=True, literals=True)

    def includes(self):
        """Yields (line, system?, name)."""
        for match in INCLUDE.finditer(self.code):
            yield line_of(self.code, match.start(2)), match[1] == "<", match[2]


def blank(text, comments, literals):
    """Replaces comments and the contents of literals by blanks; lines and columns stay."""

    def replace(match):
        wanted = comments if match["comment"] is not None else literals
        if not wanted:
            return match[0]
        return spaces(match[0])

    return TOKEN.sub(replace, text)


def spaces(text):
    """As many blanks, in the same lines."""
    return "\n".join(" " * len(line) for line in text.split("\n"))


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def folder_of(path):
    """The folder of the table that holds the file: the longest that fits."""
    fitting = [name for name in tables.FOLDERS if path.startswith(name + "/")]
    return max(fitting, key=len, default="")


def walk(root, suffixes):
    """Paths below `root`, relative to it, without built or downloaded files."""
    found = []
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in tables.SKIPPED_FOLDERS)
        for name in sorted(files):
            if name.endswith(suffixes):
                found.append(os.path.relpath(os.path.join(folder, name), root))
    return found


def sources(root):
    return [Source(root, path) for path in walk(root, (".c", ".h"))]


def matches_any(patterns, path):
    return any(re.fullmatch(pattern, path) for pattern in patterns)


def run(command, **more):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False, **more)


def run_all(function, items):
    with ThreadPoolExecutor(max_workers=JOBS) as pool:
        return list(pool.map(function, items))


def include_graph(all_sources):
    known = {source.path for source in all_sources}
    return {
        source.path: {name for _, system, name in source.includes() if not system} & known
        for source in all_sources
    }


def compile_commands(options):
    """[(source file below the root, entry)] of the build's compile_commands.json, or None."""
    path = os.path.join(options.build or "", "compile_commands.json")
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as file:
        return [(os.path.relpath(entry["file"], options.root), entry) for entry in json.load(file)]
