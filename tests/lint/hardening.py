"""Checks in the program itself whether the compiler's and linker's protections are there."""

import re
import subprocess


def read(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def check_program(path, report):
    """The program is mapped anywhere, its tables are read-only, and no stack holds code."""
    head = read("readelf", "-hW", path)
    segments = read("readelf", "-lW", path)
    dynamic = read("readelf", "-dW", path)
    names = read("nm", "-D", path)
    stack = re.search(r"GNU_STACK\s.*\s(R\w*)\s+0x", segments)
    rules = [
        ("is no position-independent program (PIE)", re.search(r"Type:\s+DYN", head)),
        ("is no position-independent program (FLAGS_1)", re.search(r"FLAGS_1.*\bPIE\b", dynamic)),
        ("resolves symbols late (no BIND_NOW)", re.search(r"\bBIND_NOW\b", dynamic)),
        ("has no read-only relocations (RELRO)", "GNU_RELRO" in segments),
        ("has an executable stack", stack and "E" not in stack[1]),
        ("has no checked string functions (_FORTIFY_SOURCE)",
         re.search(r"\b__memcpy_chk\b", names) and re.search(r"\b__v?snprintf_chk\b", names)),
        ("has no stack protector", re.search(r"\b__stack_chk_fail\b", names)),
    ]
    report.look(path)
    for message, holds in rules:
        if not holds:
            report.fail(path, 1, message)


def members(path):
    """Pairs (member, notes) of a static library."""
    parts = re.split(r"^File: .*\((.*)\)$", read("readelf", "-nW", path), flags=re.MULTILINE)
    return zip(parts[1::2], parts[2::2])


def check_library(path, report):
    """Indirect jumps and returns are protected (CET): one file without CET disables it for the
    whole program. The C library's start-up file may lack it, so the program's own note does not
    show it."""
    found = False
    for member, notes in members(path):
        item = f"{path}({member})"
        found = True
        report.look(item)
        if not re.search(r"x86 feature:.*\bIBT\b.*\bSHSTK\b", notes):
            report.fail(item, 1, "is compiled without -fcf-protection=full")
    if not found:
        report.fail(path, 1, "has no members")


def check(options, report):
    x86 = "X86-64" in read("readelf", "-hW", options.program)
    check_program(options.program, report)
    if x86:
        check_probes(options.program, report)
    for path in options.lib if x86 else []:
        check_library(path, report)


def check_probes(path, report):
    """-fstack-clash-protection: a function with more than a page of locals touches each page."""
    code = read("objdump", "-d", "--no-show-raw-insn", path)
    if not re.search(r"\bor[qlb]\s+\$0x0,(0x\w+)?\(%rsp\)", code):
        report.fail(path, 1, "has no probes of the stack (-fstack-clash-protection)")
