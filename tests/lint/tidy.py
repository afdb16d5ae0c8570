#!/usr/bin/env python3
"""Checks of the source text beyond those of a compiler. See README.md in this folder.

Usage: tidy.py CHECK [--root DIR] [--build DIR] [--nodes N] [--base LIB] [--lib LIB]...
               [--program FILE]
Prints each violation as file:line: message, then "N passed, N failed".
"""

import argparse
import os
import re
import sys

sys.dont_write_bytecode = True

import circles  # noqa: E402
import clang_tidy  # noqa: E402
import hardening  # noqa: E402
import tables  # noqa: E402
import words  # noqa: E402
from common import SKIPPED, Report, folder_of, include_graph  # noqa: E402
from common import line_of, matches_any, run, run_all, sources, walk  # noqa: E402


# --- includes: which folder may include which -----------------------------------------------------


def project_include_error(source, name):
    target = folder_of(name)
    if not target:
        return f'"{name}" is not a path from the root of the project'
    if name.endswith("_int.h") and source.folder not in (target, "tests"):
        return f"{name} is private to {target}/"
    if target == source.folder or source.folder == "tests":
        return None
    if not matches_any(tables.MAY_INCLUDE.get(source.folder, []), name):
        return f"{source.folder}/ may not include {name}"
    return None


def system_include_error(source, name):
    for pattern, allowed in tables.LIBRARY_HEADERS:
        if re.fullmatch(pattern, name) and not matches_any(allowed, source.path):
            return f"<{name}> is not for this file"
    return None


def check_includes(options, report):
    for source in sources(options.root):
        report.look(source.path)
        for line, system, name in source.includes():
            error = (system_include_error if system else project_include_error)(source, name)
            if error:
                report.fail(source.path, line, error)


# --- calls: functions that no file, or only one, may call -----------------------------------------


CALL = re.compile(r"(?<![\w.])(?<!->)(\w+)\s*\(")


def check_calls(options, report):
    banned = {name: rule for rule in tables.CALLS for name in rule[0].split("|")}
    for source in sources(options.root):
        report.look(source.path)
        for match in CALL.finditer(source.bare):
            _, allowed, reason = banned.get(match[1], (None, None, None))
            if reason and not matches_any(allowed, source.path):
                line = line_of(source.bare, match.start())
                report.fail(source.path, line, f"{match[1]}(): {reason}")


# --- length: functions and files ------------------------------------------------------------------


def functions(source):
    """Yields (first line, number of lines, body). A brace in column 0 opens a function."""
    lines = source.bare.split("\n")
    start = None
    for number, line in enumerate(lines):
        if line.startswith("{"):
            start = number
        elif line.startswith("}") and start is not None:
            first = start
            while first > 0 and lines[first - 1].strip() and not lines[first - 1].startswith("#"):
                first -= 1
            yield first + 1, number - first + 1, "\n".join(lines[start:number])
            start = None


def check_length(options, report):
    for source in sources(options.root):
        report.look(source.path)
        count = source.text.count("\n")
        if count > tables.FILE_LINES_MAX:
            report.fail(source.path, count, f"file has {count} lines")
        for line, size, _ in functions(source):
            if size > tables.FUNCTION_LINES_MAX:
                report.fail(source.path, line, f"function has {size} lines")
        for number, line in enumerate(source.text.split("\n"), 1):
            if len(line) > tables.COLUMNS_MAX:
                report.fail(source.path, number, f"line has {len(line)} columns")


# --- headers: a head comment, complete in themselves, no cycles -----------------------------------


def find_cycle(graph):
    """A list of paths that include each other in a ring, or None. Without recursion."""
    done = set()
    for start in sorted(graph):
        path, stack = [], [(start, iter(sorted(graph[start])))]
        path.append(start)
        while stack:
            node, edges = stack[-1]
            following = next((edge for edge in edges if edge not in done), None)
            if following is None:
                done.add(node)
                stack.pop()
                path.pop()
            elif following in path:
                return path[path.index(following):] + [following]
            else:
                stack.append((following, iter(sorted(graph[following]))))
                path.append(following)
    return None


FIRST_INCLUDE = re.compile(r'\s*#\s*include\s*"([^"]+)"')


def compiled_first(all_sources):
    """Headers with which a C file begins: what builds that file has compiled them alone. ./run-tests
    does not build the benches."""
    matches = (FIRST_INCLUDE.match(source.code) for source in all_sources
               if source.path.endswith(".c") and not source.path.startswith("tests/bench/"))
    return {match[1] for match in matches if match}


def check_headers(options, report):
    all_sources = sources(options.root)
    built = compiled_first(all_sources)
    headers = [source for source in all_sources if source.path.endswith(".h")]
    others = [source for source in headers if source.path not in built]
    flags = ["-std=gnu11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-I" + options.root]

    def compile_alone(source):
        return run(["gcc", "-fsyntax-only", "-x", "c", *flags, source.path], cwd=options.root)

    for source in headers:
        report.look(source.path)
        if not source.text.startswith("/*"):
            report.fail(source.path, 1, "no head comment")
    for source, result in zip(others, run_all(compile_alone, others)):
        if result.returncode != 0:
            first = next((line for line in result.stdout.split("\n") if "error" in line), "")
            report.fail(source.path, 1, f"does not compile alone: {first}")
    cycle = find_cycle(include_graph(headers))
    if cycle:
        report.fail(cycle[0], 1, "include cycle: " + " -> ".join(cycle))


# --- marks: no postponed work ---------------------------------------------------------------------


def check_marks(options, report):
    marks = re.compile(r"\b(" + "|".join(tables.MARKS) + r")\b")
    for path in walk(options.root, tables.CODE_SUFFIXES):
        report.look(path)
        with open(os.path.join(options.root, path), encoding="utf-8", errors="replace") as file:
            for number, line in enumerate(file, 1):
                match = marks.search(line)
                if match:
                    report.fail(path, number, f"{match[1]}: finish it or record it as an issue")


# --- readme: every folder has a README.md ---------------------------------------------------------


def check_readme(options, report):
    folders = {os.path.dirname(path) for path in walk(options.root, tables.SOURCE_SUFFIXES)}
    for name in tables.FOLDERS_WITH_README:
        if os.path.isdir(os.path.join(options.root, name)):
            folders.add(name)
    for folder in sorted(folders):
        report.look(folder or ".")
        if not os.path.exists(os.path.join(options.root, folder, "README.md")):
            report.fail(folder or ".", 1, "folder without README.md")


# --- asserts: one for each written precondition, none without effect ------------------------------

ASSERT = re.compile(r"\bASSERT\((.*?)\);", re.DOTALL)
DECLARED = re.compile(r"(/\*(?:(?!\*/).)*\*/)\s*((?:[^;{}/]*;[^\n]*\n)+)", re.DOTALL)


def demanding(all_sources):
    """{function: parameters} for which a comment in a header has a precondition with "must"."""
    found = {}
    for source in all_sources:
        if not source.path.endswith(".h"):
            continue
        for comment, declarations in DECLARED.findall(source.text):
            names = set(re.findall(r"`(\w+)`[^.`]{0,60}\bmust\b", comment))
            for function, parameters in re.findall(r"(\w+)\(([^()]*)\)", declarations):
                asked = names & set(re.findall(r"\w+", parameters))
                if asked:
                    found[function] = asked
    return found


def is_idle(condition, parameters, rest):
    """True if an assertion only states that pointers are not NULL which the function then follows:
    without it the process ends at the same place."""
    names = condition.split(" && ")
    return all(
        re.search(rf"\*{re.escape(name)}\b", parameters)
        and re.search(rf"\b{re.escape(name)}(->|\[)|\*{re.escape(name)}\b", rest)
        for name in names
    )


def check_function(source, line, text, demands, report):
    signature, _, body = text.partition("\n{")
    name = re.search(r"(\w+)\(", signature)
    conditions = [" ".join(condition.split()) for condition in ASSERT.findall(body)]
    rest = ASSERT.sub("", body)
    report.look(f"{source.path}:{name[1]}" if name else source.path)
    for asked in sorted(demands.get(name[1], ())) if name else ():
        if not any(re.search(rf"\b{asked}\b", condition) for condition in conditions):
            report.fail(source.path, line, f"{name[1]}() does not assert what its comment says that "
                                           f"`{asked}` must be")
    for condition in conditions:
        if is_idle(condition, signature, rest):
            report.fail(source.path, line, f"ASSERT({condition}) says what the next use of the "
                                           "pointer says")


def check_asserts(options, report):
    inside = [source for source in sources(options.root)
              if source.path.startswith(tuple(name + "/" for name in tables.ASSERT_FOLDERS))]
    demands = demanding(inside)
    for source in inside:
        if source.path.endswith(".c"):
            for line, size, _ in functions(source):
                text = "\n".join(source.bare.split("\n")[line - 1:line - 1 + size])
                check_function(source, line, text, demands, report)
    report.notes.append(f"{len(demands)} functions have a precondition in their comment")


# --- symbols: the pure parts ask nothing of the kernel --------------------------------------------


def symbols(library, kinds):
    """Pairs (member, symbol) of the given nm kinds."""
    member, found = "", []
    for line in run(["nm", library]).stdout.split("\n"):
        words = line.split()
        if line.endswith(":"):
            member = line[:-1]
        elif len(words) >= 2 and words[-2] in kinds:
            found.append((member, words[-1]))
    return found


def check_symbols(options, report):
    libraries = [path for path in options.lib if os.path.exists(path)]
    for path in set(options.lib) - set(libraries):
        report.notes.append(f"skipped: {path} is not built")
    if not libraries or not options.base or not os.path.exists(options.base):
        report.notes.append("skipped: the libraries to check do not exist yet")
        return SKIPPED
    pure = {
        symbol
        for member, symbol in symbols(options.base, "TDRBVW")
        if not re.fullmatch(tables.IMPURE_BASE, member)
    }
    for library in libraries:
        own = {symbol for _, symbol in symbols(library, "TDRBVWC")}
        for member, symbol in symbols(library, "U"):
            item = f"{os.path.basename(library)}({member})"
            report.look(item)
            if symbol not in own | pure and not re.fullmatch(tables.LIBC_ALLOWED, symbol):
                report.fail(item, 1, f"needs {symbol}, which a pure part may not use")
    return None


# --- format: clang-format decides -----------------------------------------------------------------


def check_format(options, report):
    paths = walk(options.root, (".c", ".h"))
    for path in paths:
        report.look(path)
    output = run(["clang-format", "--dry-run", "-Werror", *paths], cwd=options.root).stdout
    for match in re.finditer(r"^(\S+?):(\d+):\d+: error: (.*)$", output, re.MULTILINE):
        report.fail(match[1], int(match[2]), match[3])


CHECKS = {
    "includes": check_includes,
    "calls": check_calls,
    "length": check_length,
    "headers": check_headers,
    "marks": check_marks,
    "readme": check_readme,
    "asserts": check_asserts,
    "symbols": check_symbols,
    "format": check_format,
    "circles": circles.check,
    "hardening": hardening.check,
    "clang_tidy": clang_tidy.check,
    "analyzer": clang_tidy.check,
    "words": words.check,
}


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("check", choices=sorted(CHECKS))
    parser.add_argument("--root", default=os.path.dirname(os.path.dirname(here)))
    parser.add_argument("--build", help="build directory with compile_commands.json")
    parser.add_argument("--nodes", type=int, default=clang_tidy.NODES,
                        help="how far clang-tidy's analyzer follows each function")
    parser.add_argument("--program", help="the program whose protections are looked up")
    parser.add_argument("--base", help="the static library of base/")
    parser.add_argument("--lib", action="append", default=[], help="a library to look at")
    options = parser.parse_args()
    options.root = os.path.abspath(options.root)
    report = Report()
    special = CHECKS[options.check](options, report)
    result = report.finish()
    return result or special or 0


if __name__ == "__main__":
    sys.exit(main())
