#!/usr/bin/env python3
"""What docs/ says about names and numbers is what is there. See README.md in this folder.

Usage: check.py CHECK [--zabra BINARY]
Prints each difference, then "N looked at, N wrong".
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
SKIP = 77           # What ctest takes for a test that could not be made.
START_S = 30
BREATH_S = 0.05
PORT_FIRST = 30000  # Below the kernel's ports for outgoing connections.
PORT_COUNT = 2000
PORTS_TRIED = 10

METRIC = re.compile(r"\bzabra_[a-z0-9_]+")
# The parts in which a histogram is printed.
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

    def same(self, where, told, found):
        """Both must be the same set of names."""
        self.looked += len(set(told) | set(found))
        for name in sorted(set(told) - set(found)):
            self.fail(where, f"{name} is not there")
        for name in sorted(set(found) - set(told)):
            self.fail(where, f"{name} is missing")


def pages():
    """All that is written for people, by git's leave."""
    listed = subprocess.run(["git", "-C", TOP, "ls-files", "*.md"], capture_output=True, text=True)
    if listed.returncode == 0 and listed.stdout:
        return [TOP / name for name in listed.stdout.split()]
    return [page for page in TOP.rglob("*.md") if "build" not in page.parts]


# --- links, index ---


def anchor(heading):
    """As the usual hosts make it from a heading."""
    text = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def link_error(page, link):
    if re.match(r"[a-z]+:", link):
        return None
    name, _, mark = link.partition("#")
    target = (page.parent / name).resolve() if name else page
    if not target.exists():
        return f"{link} leads nowhere"
    if mark and mark not in map(anchor, HEADING.findall(FENCE.sub("", target.read_text()))):
        return f"{link}: there is no such heading"
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
    there = {page.name for page in DOCS.iterdir() if page.is_file() and page.name != "README.md"}
    report.same("docs/README.md", {link for link in links if "/" not in link}, there)


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
    table = table[table.index("What a client gets"):table.index("Inside the process")]
    there = {f"{name} {status}" for status, name in
             re.findall(r"X\(\w+, (\d+), -?\d+, \"(\w+)\"", table)}
    told = {f"{name} {status}" for name, status in
            re.findall(r"^\| `(\w+)` \| (\d{3}) \|", (DOCS / "api.md").read_text(), re.M)}
    report.same("docs/api.md", told, there)


def check_closes(_options, report):
    """docs/websocket.md has each close code of the contract with its reason, and no other."""
    contract = (TOP / "openapi/asyncapi.yaml").read_text()
    there = {f"{code} {plain or quoted}".strip() for code, quoted, plain in
             re.findall(r"^ +'(\d{4})': \{(?:reason: (?:'([^']*)'|([^,]*)))?", contract, re.M)}
    told = {f"{code} {reason.replace('`', '').strip()}".strip() for code, reason in
            re.findall(r"^\| (\d{4}) \|([^|]*)\|", (DOCS / "websocket.md").read_text(), re.M)}
    report.same("docs/websocket.md", told, there)


# --- promtool ---


def promtool():
    found = shutil.which("promtool") or TOP / "build/tools/promtool"
    if not pathlib.Path(found).exists():
        print("skipped: there is no promtool (run-tests fetches it)")
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
    """The text behind it, as soon as there is one; None if the process ends."""
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


def replica_says(zabra, path):
    """What a replica of its own answers there."""
    for port in itertools.islice(free_ports(), PORTS_TRIED):
        text = replica_at(zabra, port, path)
        if text is not None:
            return text
    raise AssertionError(f"no replica starts at any of {PORTS_TRIED} ports")


def printed_metrics(text):
    """Pairs of name and type."""
    return dict(re.findall(r"^# TYPE (\w+) (\w+)$", text, re.M))


def told_metrics():
    rows = re.findall(r"^\| `((?:zabra|process)_\w+)` \| (\w+)[ ,|]", (DOCS / "metrics.md").read_text(), re.M)
    return dict(rows)


def check_metrics(options, report):
    """docs/metrics.md has each metric that a replica prints, with its type, and no other."""
    text = replica_says(options.zabra, "/metrics")
    report.same("docs/metrics.md", {f"{name} ({kind})" for name, kind in told_metrics().items()},
                {f"{name} ({kind})" for name, kind in printed_metrics(text).items()})


def check_exposition(options, report):
    """promtool finds nothing in what a replica prints."""
    tool = promtool()
    text = replica_says(options.zabra, "/metrics")
    report.look()
    ended = subprocess.run([tool, "check", "metrics"], input=text, capture_output=True, text=True)
    said = ended.stdout + ended.stderr
    if said or ended.returncode:
        report.fail("/metrics", said or f"promtool ended with {ended.returncode}")


def check_figures(_options, report):
    """Rules, dashboard and pages use metrics that are told, and histograms only in their parts."""
    told = told_metrics()
    for path in [DOCS / "alerts.yaml", DOCS / "grafana.json"] + sorted(DOCS.glob("*.md")):
        for name in sorted(set(METRIC.findall(path.read_text()))):
            base = name if name in told else PARTS.sub("", name)
            kind = told.get(base)
            report.look()
            if not kind:
                report.fail(path.name, f"{name} is no metric")
            elif path.suffix != ".md" and (kind == "histogram") != (base != name):
                report.fail(path.name, f"{name} is a {kind}")


def check_dashboard(_options, report):
    """Each panel of docs/grafana.json asks something, in a place of its own."""
    board = json.loads((DOCS / "grafana.json").read_text())
    taken = set()
    for panel in board["panels"]:
        report.look()
        place = panel["gridPos"]
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"])
                 for y in range(place["y"], place["y"] + place["h"])}
        if taken & cells or max(x for x, _ in cells) >= 24:
            report.fail("grafana.json", f"{panel['title']} lies on another panel")
        taken |= cells
        if panel["type"] != "row" and not all(t["expr"] for t in panel["targets"]):
            report.fail("grafana.json", f"{panel['title']} asks nothing")


def check_routes(options, report):
    """docs/api.md tells of each resource that a replica lists."""
    text = (DOCS / "api.md").read_text()
    for name in json.loads(replica_says(options.zabra, "/"))["resources"]:
        report.look()
        if not re.search(re.escape(name.partition("{")[0].rstrip("/")) + r"\b", text):
            report.fail("docs/api.md", f"{name} is missing")


# --- alerts ---


def complaint(tool, rules):
    """What promtool says of this text of the rules, or of what their tests find; None when all is well."""
    with tempfile.TemporaryDirectory(prefix="zabra-docs-") as place:
        path = pathlib.Path(place) / "rules.yaml"
        tests = pathlib.Path(place) / "tests.yaml"
        path.write_text(rules)
        text = (TOP / "tests/docs/alerts_test.yaml").read_text()
        tests.write_text(text.replace("{RULES}", str(path)))
        for words in (["check", "rules", path], ["test", "rules", tests]):
            ended = subprocess.run([tool, *words], capture_output=True, text=True)
            if ended.returncode:
                return ended.stdout + ended.stderr
    return None


def check_alerts(_options, report):
    """promtool finds nothing; each rule is expected to fire somewhere, and rules that never do are
    noticed."""
    tool = promtool()
    rules = (DOCS / "alerts.yaml").read_text()
    tests = (TOP / "tests/docs/alerts_test.yaml").read_text()
    fires = re.findall(r'labels: \'{alertname="(\w+)"|- alertname: (\w+)', tests)
    report.same("tests/docs/alerts_test.yaml", {one or other for one, other in fires},
                re.findall(r"- alert: (\w+)", rules))
    said = complaint(tool, rules)
    if said:
        report.fail("docs/alerts.yaml", said)
    never = re.sub(r"expr: (\|\n(?: {10}.*\n)+|.*\n)", "expr: vector(0) > 1\n", rules)
    if not complaint(tool, never):
        report.fail("tests/docs/alerts_test.yaml", "rules that never fire pass")


CHECKS = {name[len("check_"):]: value for name, value in list(globals().items())
          if name.startswith("check_")}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("check", choices=sorted(CHECKS))
    parser.add_argument("--zabra")
    options = parser.parse_args()
    report = Report()
    CHECKS[options.check](options, report)
    print(f"{report.looked} looked at, {report.wrong} wrong")
    return 1 if report.wrong or not report.looked else 0


if __name__ == "__main__":
    sys.exit(main())
