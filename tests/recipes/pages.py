"""The unchanged programs on the pages of docs/recipes."""

import pathlib
import re
import shutil

LANGUAGES = ("sh", "mjs", "py")
BLOCK = re.compile(r"^```(?:sh|js|python)\n((?:#|//) ([\w-]+)\.(sh|mjs|py)\b.*?)^```$", re.S | re.M)

CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.S | re.M)
NOT_RECIPES = ("README", "client")


def names(docs):
    return sorted(page.stem for page in docs.glob("*.md") if page.stem not in NOT_RECIPES)


def extract(page):
    """Pairs of a file's name and its text."""
    return [(f"{name}.{suffix}", text) for text, name, suffix in BLOCK.findall(page.read_text())]


def examples(docs, name):
    """The commands to try: pairs of a command and the output lines below it."""
    found = []
    for block in CONSOLE.findall((docs / f"{name}.md").read_text()):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
    if not found:
        raise AssertionError(f"{name}.md has no example")
    return found


def write_all(docs, name, out):
    """Writes the page's programs, one for each language, and their shared file into a directory."""
    found = dict(extract(docs / f"{name}.md"))
    expected = {f"{name}.{suffix}" for suffix in LANGUAGES}
    if set(found) != expected:
        raise AssertionError(f"{name}.md has {sorted(found)}, not {sorted(expected)}")
    for file, text in found.items():
        (pathlib.Path(out) / file).write_text(text)
    for suffix in LANGUAGES:
        shutil.copy(docs / f"zabra.{suffix}", out)
