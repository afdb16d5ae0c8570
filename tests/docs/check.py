#!/usr/bin/env python3
"""Names and numbers in docs/ are those of the program. See README.md in this folder.

Usage: check.py CHECK [--zabra BINARY]
Prints each difference, then "N checked, N wrong".
"""

import argparse
import itertools
import json
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

TOP = pathlib.Path(__file__).resolve().parents[2]
DOCS = TOP / "docs"
ALERT_TESTS = [TOP / "tests/docs/alerts_test.yaml", TOP / "tests/docs/alerts_slow_test.yaml"]
SKIP = 77           # The exit code that ctest counts as a skipped test.
START_S = 30
BREATH_S = 0.05
PORT_FIRST = 30000  # Below the kernel's ports for outgoing connections.
PORT_COUNT = 2000
PORTS_TRIED = 10

METRIC = re.compile(r"\bzabra_[a-z0-9_]+")
# The printed parts of a histogram.
PARTS = re.compile(r"_(bucket|sum|count)$")
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.*)$", re.M)
FENCE = re.compile(r"^```.*?^```$", re.S | re.M)
CODE = re.compile(r"`([^`\n]+)`")
PROGRAM = re.compile(r"((?:unit|prop|fault|proc|docs)\.\w+)(?::(\w+))?")
SOURCES = ("tests/{label}/{name}.c", "tests/{label}/zab/{name}.txt",
           "tests/recipes/{name}.py", "tests/docs/{name}.yaml")
INVARIANT = re.compile(r"A\d+")


class Report:
    def __init__(self):
        self.looked = 0
        self.wrong = 0

    def look(self):
        self.looked += 1

    def fail(self, where, what):
        self.wrong += 1
        print(f"{where}: {what}")

    def same(self, where, documented, found):
        """Both must be the same set of names."""
        self.looked += len(set(documented) | set(found))
        for name in sorted(set(documented) - set(found)):
            self.fail(where, f"{name} does not exist")
        for name in sorted(set(found) - set(documented)):
            self.fail(where, f"{name} is missing")


def pages():
    """All pages that git tracks."""
    listed = subprocess.run(["git", "-C", TOP, "ls-files", "*.md"], capture_output=True, text=True)
    if listed.returncode == 0 and listed.stdout:
        return [TOP / name for name in listed.stdout.split()]
    return [page for page in TOP.rglob("*.md") if "build" not in page.parts]


# --- links, index ---


def anchor(heading):
    """The anchor of a heading, as git hosts make it."""
    text = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def link_error(page, link):
    if re.match(r"[a-z]+:", link):
        return None
    name, _, mark = link.partition("#")
    target = (page.parent / name).resolve() if name else page
    if not target.exists():
        return f"{link} has no target"
    if mark and mark not in map(anchor, HEADING.findall(FENCE.sub("", target.read_text()))):
        return f"{link}: unknown heading"
    return None


def check_links(_options, report):
    for page in pages():
        for link in LINK.findall(FENCE.sub("", page.read_text())):
            report.look()
            error = link_error(page, link)
            if error:
                report.fail(page.relative_to(TOP), error)


def check_index(_options, report):
    """docs/README.md leads to each page."""
    links = {link.partition("#")[0] for link in LINK.findall((DOCS / "README.md").read_text())}
    real = {page.name for page in DOCS.iterdir() if page.is_file() and page.name != "README.md"}
    report.same("docs/README.md", {link for link in links if "/" not in link}, real)


# --- names of tests ---


def program_text(name):
    label, _, rest = name.partition(".")
    for pattern in SOURCES:
        path = TOP / pattern.format(label=label, name=rest)
        if path.exists():
            return path.read_text()
    listed = (TOP / "tests" / label / "CMakeLists.txt")
    return listed.read_text() if listed.exists() and rest in listed.read_text() else None


def name_error(word, invariants):
    """Of `proc.test_name`, `proc.test_name:function` or `A13`; None for any other word."""
    named = PROGRAM.fullmatch(word)
    if INVARIANT.fullmatch(word):
        return "" if word in invariants else f"there is no invariant {word}"
    if not named:
        return None
    text = program_text(named[1])
    if text is None:
        return f"there is no {named[1]}"
    known = not named[2] or re.search(
        rf"\b(?:(?:void|def) {named[2]}\(|TEST\({named[2]}[,)]|test {named[2]}\n)", text)
    return "" if known else f"{named[2]} is not in {named[1]}"


def check_names(_options, report):
    invariants = set(re.findall(r"^\| (A\d+) \|", (TOP / "tests/sim/README.md").read_text(), re.M))
    for page in sorted(DOCS.glob("*.md")):
        for word in CODE.findall(FENCE.sub("", page.read_text())):
            error = name_error(word, invariants)
            if error is not None:
                report.look()
            if error:
                report.fail(page.relative_to(TOP), error)


# --- tables against the program ---


def check_errors(_options, report):
    """docs/api.md has each code that a client can get, with its status, and no other."""
    table = (TOP / "base/err.h").read_text()
    table = table[table.index("Errors that a client gets"):table.index("Errors inside the process")]
    real = {f"{name} {status}" for status, name in
             re.findall(r"X\(\w+, (\d+), -?\d+, \"(\w+)\"", table)}
    documented = {f"{name} {status}" for name, status in
            re.findall(r"^\| `(\w+)` \| (\d{3}) \|", (DOCS / "api.md").read_text(), re.M)}
    report.same("docs/api.md", documented, real)


def check_closes(_options, report):
    """docs/websocket.md has each close code of the contract with its reason, and no other."""
    contract = (TOP / "openapi/asyncapi.yaml").read_text()
    real = {f"{code} {plain or quoted}".strip() for code, quoted, plain in
             re.findall(r"^ +'(\d{4})': \{(?:reason: (?:'([^']*)'|([^,]*)))?", contract, re.M)}
    documented = {f"{code} {reason.replace('`', '').strip()}".strip() for code, reason in
            re.findall(r"^\| (\d{4}) \|([^|]*)\|", (DOCS / "websocket.md").read_text(), re.M)}
    report.same("docs/websocket.md", documented, real)


# --- log lines ---

PRODUCT = ("base", "cli", "http", "server", "storage", "tls", "ws", "zab")
# A call up to its format, which may consist of several literals and macros such as PRIu64.
LOG_CALL = re.compile(r"\b(?:log_(?:debug|info|warn|error)\(\s*(?:\"\w+\"|[\w>-]+)|logfmt_print\(\s*\w+),\s*"
                      r"((?:\"(?:[^\"\\]|\\.)*\"|PRI\w+|\s+)+)[,)]")
LOG_NAMED = re.compile(r"\{([a-z0-9_]{1,24})\}(?:0x)?%[-0]*[\d*]*(?:\.[\d*]+)?[hlzj]*[diuxcsf]")
LOG_UNNAMED = re.compile(r"(?<!%)%(?!%)")
# The names of the text that zab/ writes for an alarm.
LOG_NOTICE = re.compile(r"\[ZAB_NOTICE_\w+\] =\s*((?:\"[^\"]*\"\s*)+)")
LOG_RESERVED = {"time", "level", "subject", "thread", "message"}


def joined(literals):
    """The text of adjacent literals; a macro of <inttypes.h> becomes `u`."""
    literals = re.sub(r"PRI\w+", "\"u\"", literals)
    return "".join(re.findall(r"\"((?:[^\"\\]|\\.)*)\"", literals)).replace('\\"', '"')


def log_formats():
    """Pairs of place and format. A format that is only `%s` prints a sentence made elsewhere."""
    for folder in PRODUCT:
        for path in sorted((TOP / folder).rglob("*.c")):
            if path.parent.name == "base" and path.stem in ("log", "logfmt"):
                continue
            text = path.read_text()
            for call in LOG_CALL.finditer(text):
                line = text.count("\n", 0, call.start()) + 1
                yield f"{path.relative_to(TOP)}:{line}", joined(call[1])
    effects = (TOP / "zab/effects.c").read_text()
    for notice in LOG_NOTICE.finditer(effects):
        yield "zab/effects.c", re.sub(r"\{(\w+)\}", r"{\1}%s", joined(notice[1]))


def check_logs(_options, report):
    """docs/logs.md has each name of a value and each message, and no other."""
    page = (DOCS / "logs.md").read_text()
    names = set()
    messages = set()
    for where, text in log_formats():
        report.look()
        found = LOG_NAMED.findall(text)
        if text in ("%s", "%.*s"):
            continue
        if LOG_UNNAMED.search(LOG_NAMED.sub("", text)):
            report.fail(where, f"a value has no name: {text}")
        twice = len(set(found)) < len(found) and where != "zab/effects.c"
        if twice or LOG_RESERVED & set(found):
            report.fail(where, f"a name is used twice or reserved: {text}")
        names |= set(found)
        messages.add(LOG_NAMED.sub(lambda named: named[1].upper(), text).replace("%%", "%"))
    if not messages:
        report.fail("docs.logs", "no log line was found")
    report.same("docs/logs.md", set(re.findall(r"^\| `([a-z0-9_]+)` \|", page, re.M)), names)
    report.same("docs/logs.md", set(re.findall(r"^\| \w+ \| `([^`]+)` \|", page, re.M)), messages)


# --- promtool ---


def promtool():
    found = shutil.which("promtool") or TOP / "build/tools/promtool"
    if not pathlib.Path(found).exists():
        print("skipped: promtool is missing (run-tests fetches it)")
        sys.exit(SKIP)
    return found


# --- metrics ---


def free_ports():
    """Ports that are free; another check may take one before the replica does."""
    for port in range(PORT_FIRST, PORT_FIRST + PORT_COUNT):
        with socket.socket() as sock:
            try:
                sock.bind(("127.0.0.1", port))
            except OSError:
                continue
        yield port


def fetch(url, process):
    """The text of the URL, when the replica answers; None if the process ends."""
    end = time.monotonic() + START_S
    while time.monotonic() < end and process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=START_S) as answer:
                return answer.read().decode()
        except (urllib.error.URLError, OSError):
            time.sleep(BREATH_S)
    if process.poll() is None:
        raise AssertionError(f"no answer from {url}")
    return None


def replica_at(zabra, port, path):
    with tempfile.TemporaryDirectory(prefix="zabra-docs-") as data:
        process = subprocess.Popen([zabra, "serve", "--id=1", f"--dataDir={data}/1",
                                    f"--clientPort={port}"], stderr=subprocess.DEVNULL)
        try:
            return fetch(f"http://127.0.0.1:{port}{path}", process)
        finally:
            process.terminate()
            process.wait()


def replica_answer(zabra, path):
    """The answer of a new replica."""
    for port in itertools.islice(free_ports(), PORTS_TRIED):
        text = replica_at(zabra, port, path)
        if text is not None:
            return text
    raise AssertionError(f"no replica starts at any of {PORTS_TRIED} ports")


def printed_metrics(text):
    """Pairs of name and type."""
    return dict(re.findall(r"^# TYPE (\w+) (\w+)$", text, re.M))


def documented_metrics():
    rows = re.findall(r"^\| `((?:zabra|process)_\w+)` \| (\w+)[ ,|]", (DOCS / "metrics.md").read_text(), re.M)
    return dict(rows)


def check_metrics(options, report):
    """docs/metrics.md has each metric that a replica prints, with its type, and no other."""
    text = replica_answer(options.zabra, "/metrics")
    report.same("docs/metrics.md", {f"{name} ({kind})" for name, kind in documented_metrics().items()},
                {f"{name} ({kind})" for name, kind in printed_metrics(text).items()})


def check_exposition(options, report):
    """promtool accepts the metrics of a replica."""
    tool = promtool()
    text = replica_answer(options.zabra, "/metrics")
    report.look()
    ended = subprocess.run([tool, "check", "metrics"], input=text, capture_output=True, text=True)
    error = ended.stdout + ended.stderr
    if error or ended.returncode:
        report.fail("/metrics", error or f"promtool ended with {ended.returncode}")


def check_figures(_options, report):
    """Rules, dashboard and pages use documented metrics, and histograms only by their parts."""
    documented = documented_metrics()
    for path in [DOCS / "alerts.yaml", DOCS / "grafana.json"] + sorted(DOCS.glob("*.md")):
        for name in sorted(set(METRIC.findall(path.read_text()))):
            base = name if name in documented else PARTS.sub("", name)
            kind = documented.get(base)
            report.look()
            if not kind:
                report.fail(path.name, f"{name} is no metric")
            elif path.suffix != ".md" and (kind == "histogram") != (base != name):
                report.fail(path.name, f"{name} is a {kind}")


def check_dashboard(_options, report):
    """Each panel of docs/grafana.json has a query, and panels do not overlap."""
    board = json.loads((DOCS / "grafana.json").read_text())
    taken = set()
    for panel in board["panels"]:
        report.look()
        place = panel["gridPos"]
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"])
                 for y in range(place["y"], place["y"] + place["h"])}
        if taken & cells or max(x for x, _ in cells) >= 24:
            report.fail("grafana.json", f"{panel['title']} overlaps another panel")
        taken |= cells
        if panel["type"] != "row" and not all(t["expr"] for t in panel["targets"]):
            report.fail("grafana.json", f"{panel['title']} has no query")


def check_routes(options, report):
    """docs/api.md has each resource that a replica lists."""
    text = (DOCS / "api.md").read_text()
    for name in json.loads(replica_answer(options.zabra, "/"))["resources"]:
        report.look()
        if not re.search(re.escape(name.partition("{")[0].rstrip("/")) + r"\b", text):
            report.fail("docs/api.md", f"{name} is missing")


# --- alerts ---


def complaint(tool, rules):
    """The error of promtool about these rules or their tests; None without one."""
    with tempfile.TemporaryDirectory(prefix="zabra-docs-") as place:
        path = pathlib.Path(place) / "rules.yaml"
        path.write_text(rules)
        tests = []
        for source in ALERT_TESTS:
            tests.append(pathlib.Path(place) / source.name)
            tests[-1].write_text(source.read_text().replace("{RULES}", str(path)))
        for words in (["check", "rules", path], ["test", "rules", *tests]):
            ended = subprocess.run([tool, *words], capture_output=True, text=True)
            if ended.returncode:
                return ended.stdout + ended.stderr
    return None


def check_alerts(_options, report):
    """promtool accepts the rules, a test expects each rule to fire, and rules that never fire are
    noticed."""
    tool = promtool()
    rules = (DOCS / "alerts.yaml").read_text()
    tests = "".join(source.read_text() for source in ALERT_TESTS)
    fires = re.findall(r'labels: \'{alertname="(\w+)"|- alertname: (\w+)', tests)
    report.same("tests/docs/alerts_*test.yaml", {one or other for one, other in fires},
                re.findall(r"- alert: (\w+)", rules))
    error = complaint(tool, rules)
    if error:
        report.fail("docs/alerts.yaml", error)
    never = re.sub(r"expr: (\|\n(?: {10}.*\n)+|.*\n)", "expr: vector(0) > 1\n", rules)
    if not complaint(tool, never):
        report.fail("tests/docs/alerts_*test.yaml", "rules that never fire pass")


CHECKS = {name[len("check_"):]: value for name, value in list(globals().items())
          if name.startswith("check_")}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("check", choices=sorted(CHECKS))
    parser.add_argument("--zabra")
    options = parser.parse_args()
    report = Report()
    CHECKS[options.check](options, report)
    print(f"{report.looked} checked, {report.wrong} wrong")
    return 1 if report.wrong or not report.looked else 0


if __name__ == "__main__":
    sys.exit(main())
