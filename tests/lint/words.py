"""The check `words`: prose has no word of tables.WORDS. Only prose counts: pages without their code,
comments, string literals."""

import os
import re

import tables
from common import TOKEN, line_of, spaces, walk

FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
INLINE_CODE = re.compile(r"`[^`\n]*`|\]\([^)\n]*\)|<!--(?! lint)[^>]*-->")
SCRIPT_TOKEN = re.compile(TOKEN.pattern + r"|(?P<template>`[^`]*`)", re.DOTALL)
INCLUDE_LINE = re.compile(r"^\s*(?:#\s*include|import)\b.*$", re.MULTILINE)

# Between two words of a sentence: also the start of the next line of a comment or a literal.
BETWEEN = r'(?:[\s*#]|\\n|"\s*")+'

# A literal of one word, or a placeholder, is a name.
NAME_QUOTES = {"''", '""', "{}"}


def erase(match):
    return spaces(match[0])


def prose_of_page(text):
    return INLINE_CODE.sub(erase, FENCE.sub(erase, text))


def prose_of_code(text, token):
    """Blanks all but comments and literals; lines stay."""
    parts, at = [], 0
    text = INCLUDE_LINE.sub(erase, text)
    for match in token.finditer(text):
        parts.append(re.sub(r'[^\n\s"]', " ", text[at:match.start()]))
        parts.append(match[0])
        at = match.end()
    return "".join(parts)


def prose_of(path, text):
    if path.endswith(".md"):
        return prose_of_page(text)
    if path.endswith((".c", ".h", ".css")):
        return prose_of_code(text, TOKEN)
    if path.endswith((".ts", ".tsx", ".js", ".mjs")):
        return prose_of_code(text, SCRIPT_TOKEN)
    return text


# For prose in small letters. What must not stand before the words is looked at afterwards: a pattern
# that begins with a letter is found ten times as fast.
PATTERNS = [(re.compile(rf"(?:{words.replace(' ', BETWEEN)})(?![\w/(\-]|\.\w)"), advice)
            for words, advice in tables.WORDS]
NOT_BEFORE = re.compile(r"[\w/.\-]")


def found_in(path, text):
    """Yields (line, words, advice). A marked line is a false alarm."""
    prose, lines = prose_of(path, text).lower(), text.split("\n")
    for pattern, advice in PATTERNS:
        for match in pattern.finditer(prose):
            if NOT_BEFORE.match(prose[max(match.start() - 1, 0):match.start()]):
                continue
            line = line_of(prose, match.start())
            name = prose[match.start() - 1:match.start()] + prose[match.end():match.end() + 1]
            if name not in NAME_QUOTES and tables.WORDS_MARK not in lines[line - 1]:
                yield line, " ".join(re.findall(r"\w+", match[0])), advice


def exception_of(path):
    """The longest entry of WORDS_LEFT that holds the file."""
    fitting = [name for name in tables.WORDS_LEFT if path == name or path.startswith(name + "/")]
    return max(fitting, key=len, default=None)


def check(options, report):
    left = {}
    for path in walk(options.root, tables.WORDS_SUFFIXES):
        report.look(path)
        with open(os.path.join(options.root, path), encoding="utf-8", errors="replace") as file:
            found = [(path, *item) for item in found_in(path, file.read())]
        left.setdefault(exception_of(path), []).extend(found)
    for name, found in left.items():
        allowed = tables.WORDS_LEFT.get(name, 0)
        if len(found) > allowed:
            for path, line, words, advice in found:
                report.fail(path, line, f'"{words}": {advice}')
        if allowed > 0:
            report.notes.append(f"{name}: {len(found)} of {allowed} that tables.py still allows")
