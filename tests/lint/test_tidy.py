#!/usr/bin/env python3
"""Breaks each rule once on purpose, because a checker must be seen to catch violations."""

import json
import os
import platform
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.dont_write_bytecode = True

import common  # noqa: E402
import tables  # noqa: E402
import tidy  # noqa: E402

GOOD_HEADER = "/* a.h - for a test. */\n#ifndef A_H\n#define A_H\nint a(void);\n#endif\n"


class Tree(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = self.folder.name

    def tearDown(self):
        self.folder.cleanup()

    def put(self, path, text):
        full = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as file:
            file.write(text)

    def check(self, name, **options):
        """Violations as "path:line", and the messages."""
        report = common.Report()
        values = {"root": self.root, "build": None, "base": None, "lib": [],
                  "nodes": 5000, "program": None, "check": name}
        values.update(options)
        self.result = tidy.CHECKS[name](type("Options", (), values), report)
        self.messages = [message for _, _, message in sorted(report.lines)]
        self.notes = report.notes
        return [f"{item}:{line}" for item, line, _ in sorted(report.lines)]


class Includes(Tree):
    def test_table(self):
        self.put("base/a.h", GOOD_HEADER)
        self.put("zab/a.h", GOOD_HEADER)
        self.put("zab/a.c", '#include "base/a.h"\n#include "zab/a.h"\n#include "storage/a.h"\n')
        self.put("zab/tcp/t.c", '#include "zab/a.h"\n#include "base/a.h"\n')
        self.put("zab/tcp/tls.c", "#include <openssl/ssl.h>\n")
        self.put("base/b.c", '#include "zab/a.h"\n')
        self.put("http/h.c", '#include "server/op/op.h"\n#include "server/replica/replica.h"\n')
        self.put("tests/unit/t.c", '#include "zab/a.h"\n#include "server/a_int.h"\n')
        self.assertEqual(self.check("includes"), ["base/b.c:1", "http/h.c:2", "zab/a.c:3"])

    def test_private_and_unrooted(self):
        self.put("storage/a.c", '#include "storage/a_int.h"\n#include "a.h"\n')
        self.put("server/process/s.c", '#include "storage/a_int.h"\n')
        self.assertEqual(self.check("includes"), ["server/process/s.c:1", "storage/a.c:2"])

    def test_libraries(self):
        self.put("server/json/op_json.c", "#include <jansson.h>\n")
        self.put("server/json/op_json_multi.c", "#include <jansson.h>\n")
        self.put("server/process/gate.c", "#include <jansson.h>\n")
        self.put("storage/wal.c", "#include <sys/socket.h>\n#include <pthread.h>\n")
        self.put("storage/snap.c", "#include <pthread.h>\n")
        self.put("server/state/tree.c", "#include <pthread.h>\n")
        self.put("server/config/config_value.c", "#include <arpa/inet.h>\n")
        self.put("tests/proc/p.c", "#include <microhttpd.h>\n#include <curl/curl.h>\n")
        self.assertEqual(
            self.check("includes"),
            ["server/process/gate.c:1", "server/state/tree.c:1", "storage/snap.c:1", "storage/wal.c:1",
             "tests/proc/p.c:1"])

    def test_a_comment_includes_nothing(self):
        self.put("base/a.c", '/*\n#include "zab/a.h"\n*/\n// #include <microhttpd.h>\n')
        self.assertEqual(self.check("includes"), [])


class Calls(Tree):
    def test_every_name_is_found(self):
        names = [name for names, _, _ in tables.CALLS for name in names.split("|")]
        self.put("zab/a.c", "".join(f"x = {name} (1);\n" for name in names))
        self.assertEqual(len(self.check("calls")), len(names))

    def test_what_looks_alike_is_free(self):
        self.put("zab/a.c", 'x = "gets(1)"; // free(x)\nbuf_free(x); a->free(x); a.time(x);\n'
                            "/* exit(1) */ _exit(1); int time; strtoull(x);\n"
                            "char c = '\"'; exit(1);\n")
        self.assertEqual(self.check("calls"), ["zab/a.c:4"])

    def test_the_one_file_may(self):
        self.put("base/mem.c", "free(x);\n")
        self.put("base/os_clock.c", "clock_gettime(x);\n")
        self.put("cli/main.c", "exit(1);\n")
        self.put("base/log.c", "gmtime_r(x); free(x);\n")
        self.assertEqual(self.check("calls"), ["base/log.c:1"])


class Length(Tree):
    def test_functions(self):
        at_limit = "int a(void)\n{\n" + "    f();\n" * 67 + "}\n"
        beyond = "int b(int x,\n      int y)\n{\n" + "    f();\n" * 67 + "}\n"
        self.put("zab/a.c", at_limit + "\n" + beyond)
        self.assertEqual(self.check("length"), ["zab/a.c:72"])

    def test_files_and_columns(self):
        self.put("zab/a.c", "int a;\n" * 600)
        self.put("zab/b.c", "int a;\n" * 601)
        self.put("zab/c.c", "/*" + " " * 97 + "*/\n")
        self.assertEqual(self.check("length"), ["zab/b.c:601", "zab/c.c:1"])


class Headers(Tree):
    def test_each(self):
        self.put("base/good.h", GOOD_HEADER)
        self.put("base/nameless.h", "int a(void);\n")
        self.put("base/needy.h", "/* needs stdint.h */\nuint8_t a(void);\n")
        self.assertEqual(self.check("headers"), ["base/nameless.h:1", "base/needy.h:1"])

    def test_cycle(self):
        self.put("base/a.h", '/* a */\n#ifndef A\n#define A\n#include "base/b.h"\n#endif\n')
        self.put("base/b.h", '/* b */\n#ifndef B\n#define B\n#include "base/c.h"\n#endif\n')
        self.put("base/c.h", '/* c */\n#ifndef C\n#define C\n#include "base/b.h"\n#endif\n')
        self.assertEqual(self.check("headers"), ["base/b.h:1"])
        self.assertIn("base/b.h -> base/c.h -> base/b.h", self.messages[0])


class Text(Tree):
    def test_marks(self):
        text = "".join(f"/* {mark}: later */\n" for mark in tables.MARKS)
        self.put("base/a.c", text + 'mkdtemp("aXXXXXX");\n')
        self.assertEqual(len(self.check("marks")), len(tables.MARKS))

    def test_readme(self):
        self.put("base/README.md", "base\n")
        self.put("base/a.c", "int a;\n")
        self.put("tests/fuzz/f.c", "int a;\n")
        self.put("build/x/a.c", "int a;\n")
        self.assertEqual(self.check("readme"), ["tests:1", "tests/fuzz:1"])

    def test_a_precondition_is_asserted(self):
        self.put("zab/a.h", "/* a */\n/* `x` must be even. */\nvoid a(int x);\n\n"
                            "/* `x` must be even. */\nvoid b(int x);\n\n/* Any. */\nvoid c(int x);\n")
        self.put("zab/a.c", "void a(int x)\n{\n    ASSERT(x % 2 == 0);\n}\n\n"
                            "void b(int x)\n{\n    ASSERT(y);\n}\n\nvoid c(int x)\n{\n}\n")
        self.put("http/a.h", "/* a */\n/* `x` must be even. */\nvoid d(int x);\n")
        self.put("http/a.c", "void d(int x)\n{\n}\n")
        self.assertEqual(self.check("asserts"), ["zab/a.c:6"])

    def test_an_assertion_says_something(self):
        self.put("storage/a.c", "void a(struct x *x)\n{\n    ASSERT(x);\n    x->a = 1;\n}\n\n"
                                "void b(int n, int *y)\n{\n    ASSERT(n);\n    *y = n;\n}\n\n"
                                "void c(struct x *x)\n{\n    ASSERT(x);\n    keep(x);\n}\n\n"
                                "void d(struct x *x)\n{\n    ASSERT(x->a);\n    x->a = 0;\n}\n\n"
                                "void f(int *x, int *y)\n{\n    ASSERT(x && y);\n    *x = *y;\n}\n")
        self.assertEqual(self.check("asserts"),
                         ["storage/a.c:1", "storage/a.c:25"])

    def test_format(self):
        self.put(".clang-format", "BasedOnStyle: LLVM\n")
        self.put("base/a.c", "int a;\n")
        self.put("base/b.c", "int   a;\n")
        self.assertEqual(self.check("format"), ["base/b.c:1"])


class Words(Tree):
    def left(self, **folders):
        before = tables.WORDS_LEFT
        self.addCleanup(setattr, tables, "WORDS_LEFT", before)
        tables.WORDS_LEFT = folders

    def test_each_place_of_prose(self):
        self.left()
        self.put("a.md", "Nobody sees it.\n`nobody` [x](nobody.md)\n```\nnobody\n```\n")  # lint: words
        self.put("base/a.c", 'int nobody; /* It goes\n * on. */\nputs("it is "\n     "told");\n')  # lint: words
        self.put("web/a.ts", "import who from './who';\nsay(`somebody`); who();\n")  # lint: words
        self.put("openapi/a.yaml", "description: Read it anew.\n")  # lint: words
        self.put("cli/a.sh", "# nobody  lint: words\n")  # lint: words
        self.assertEqual(self.check("words"),
                         ["a.md:1", "base/a.c:1", "base/a.c:3", "openapi/a.yaml:1", "web/a.ts:2"])
        self.assertIn('"goes on"', self.messages[1])  # lint: words

    def test_exceptions_may_only_fall(self):
        self.put("zab/a.c", "/* Nobody. */\n/* Nobody. */\n")  # lint: words
        self.put("zab/tcp/a.c", "/* Nobody. */\n")  # lint: words
        self.left(zab=3)
        self.assertEqual(self.check("words"), [])
        self.assertIn("zab: 3 of 3 that tables.py still allows", self.notes)
        self.left(zab=2)
        self.assertEqual(self.check("words"), ["zab/a.c:1", "zab/a.c:2", "zab/tcp/a.c:1"])
        self.left(**{"zab": 2, "zab/tcp": 1})
        self.assertEqual(self.check("words"), [])


class Symbols(Tree):
    def library(self, name, text):
        source = os.path.join(self.root, f"{name}.c")
        library = os.path.join(self.root, f"lib{name}.a")
        with open(source, "w", encoding="utf-8") as file:
            file.write(text)
        subprocess.run(["gcc", "-c", source, "-o", source + ".o"], check=True)
        subprocess.run(["ar", "rcs", library, source + ".o"], check=True)
        return library

    def test_pure_and_not(self):
        base = self.library("buf", "void buf_a(void) {}\n")
        clock = self.library("os_clock", "long os_now_ms(void) { return 0; }\n")
        member = os.path.join(self.root, "os_clock.c.o")
        subprocess.run(["ar", "rcs", base, member], check=True)
        self.assertTrue(os.path.exists(clock))
        pure = self.library("pure", "void buf_a(void); void *memcpy(void *, const void *, unsigned "
                                    "long); void f(void *a) { buf_a(); memcpy(a, a, 9); }\n")
        impure = self.library("impure", "long os_now_ms(void); int socket(int, int, int); "
                                        "void g(void) { os_now_ms(); socket(1, 1, 1); }\n")
        self.assertEqual(self.check("symbols", base=base, lib=[pure]), [])
        found = self.check("symbols", base=base, lib=[pure, impure])
        self.assertEqual(len(found), 2)
        self.assertIn("needs os_now_ms", self.messages[0])
        self.assertIn("needs socket", self.messages[1])

    def test_nothing_built(self):
        self.check("symbols", base="/nowhere/base.a", lib=["/nowhere/zab.a"])
        self.assertEqual(self.result, common.SKIPPED)
        self.assertTrue(any("skipped" in note for note in self.notes))


HARDENED = ["-O2", "-fPIE", "-pie", "-Wl,-z,relro,-z,now", "-Wl,-z,noexecstack", "-U_FORTIFY_SOURCE",
            "-D_FORTIFY_SOURCE=3", "-fstack-protector-strong", "-fstack-clash-protection"]
HARDENED_X86 = ["-fcf-protection=full"]

# Each removes one kind of protection, and gives this message.
UNPROTECTED = [
    (["-no-pie", "-fno-pie"], ["is no position-independent program (FLAGS_1)",
                               "is no position-independent program (PIE)"]),
    (["-Wl,-z,lazy"], ["resolves symbols late (no BIND_NOW)"]),
    (["-Wl,-z,norelro"], ["has no read-only relocations (RELRO)"]),
    (["-Wl,-z,execstack"], ["has an executable stack"]),
    (["-U_FORTIFY_SOURCE"], ["has no checked string functions (_FORTIFY_SOURCE)"]),
    (["-fno-stack-protector"], ["has no stack protector"]),
]
UNPROTECTED_X86 = [
    (["-fcf-protection=none"], ["is compiled without -fcf-protection=full"]),
    (["-fcf-protection=branch"], ["is compiled without -fcf-protection=full"]),
    (["-fno-stack-clash-protection"], ["has no probes of the stack (-fstack-clash-protection)"]),
]


class Hardening(Tree):
    x86 = platform.machine() == "x86_64"

    def build(self, flags):
        """A program, and the library that its one file makes."""
        self.put("a.c", "#include <stdio.h>\n#include <string.h>\n"
                        "int main(int count, char **words)\n{\n    char text[65536];\n"
                        "    memcpy(text, words[0], (size_t)count);\n"
                        '    snprintf(text + count, (size_t)count, "%s", words[0]);\n'
                        "    return puts(text);\n}\n")
        source = os.path.join(self.root, "a.c")
        program, member, library = (os.path.join(self.root, name) for name in ("a", "a.o", "a.a"))
        subprocess.run(["gcc", *flags, "-c", source, "-o", member], check=True)
        subprocess.run(["gcc", *flags, member, "-o", program], check=True)
        subprocess.run(["ar", "rcs", library, member], check=True)
        return {"program": program, "lib": [library]}

    def test_each_protection_is_missed(self):
        flags = HARDENED + (HARDENED_X86 if self.x86 else [])
        self.check("hardening", **self.build(flags))
        self.assertEqual(self.messages, [])
        for without, messages in UNPROTECTED + (UNPROTECTED_X86 if self.x86 else []):
            with self.subTest(without=without):
                self.check("hardening", **self.build(flags + without))
                self.assertEqual(sorted(self.messages), messages)

    def test_nothing_is_protected(self):
        bare = ["-O0", *(flag for flags, _ in UNPROTECTED for flag in flags)]
        if self.x86:
            bare += ["-fcf-protection=none", "-fno-stack-clash-protection"]
        self.check("hardening", **self.build(bare))
        self.assertEqual(len(self.messages), 9 if self.x86 else 7)

    def test_a_library_of_nothing(self):
        found = self.build(HARDENED + (HARDENED_X86 if self.x86 else []))
        os.unlink(found["lib"][0])
        subprocess.run(["ar", "rcs", found["lib"][0]], check=True)
        self.check("hardening", **found)
        self.assertEqual(self.messages, ["has no members"] if self.x86 else [])


class Circles(Tree):
    def build(self, files):
        """Objects of these files, {path: text}, and the compile commands that made them."""
        commands = []
        for path, text in files.items():
            self.put(path, text)
            output = path.replace("/", "_") + ".o"
            command = f"gcc -O1 -I{self.root} -o {output} -c {os.path.join(self.root, path)}"
            subprocess.run(command.split(), cwd=self.root, check=True)
            commands.append({"directory": self.root, "command": command,
                             "file": os.path.join(self.root, path)})
        self.put("compile_commands.json", json.dumps(commands))
        return {"build": self.root}

    def check_with(self, known, files, for_tests=tuple("abcd")):
        with unittest.mock.patch.multiple(tables, CIRCLES=known, FOR_TESTS=for_tests):
            return self.check("circles", **self.build(files))

    def test_a_circle(self):
        files = {"zab/a.c": "void a(void); void b(void); void a(void) { b(); }\n",
                 "zab/b.c": "void b(void); void c(void); void b(void) { c(); }\n",
                 "zab/c.c": "void a(void); void c(void); void c(void) { a(); }\n",
                 "zab/d.c": "void a(void); void d(void); void d(void) { a(); }\n"}
        circle = ["zab/a.c", "zab/b.c", "zab/c.c"]
        self.assertEqual(self.check_with([], files), ["zab/a.c:1", "zab/b.c:1", "zab/c.c:1"])
        self.assertIn("it calls zab/b.c (b)", self.messages[0])
        self.assertEqual(self.check_with([circle], files), [])
        self.assertEqual(len(self.check_with([circle[:2]], files)), 4)

    def test_the_list_shrinks(self):
        files = {"zab/a.c": "void a(void); void b(void); void a(void) { b(); }\n",
                 "zab/b.c": "void b(void); void b(void) { }\n"}
        self.assertEqual(self.check_with([], files), [])
        self.assertEqual(self.check_with([["zab/a.c", "zab/b.c"]], files),
                         ["tests/lint/tables.py:1"])

    def test_a_callback_is_no_arrow(self):
        self.put("zab/b.h", "/* b */\nvoid b(void (*call)(void));\n")
        files = {"zab/a.c": '#include "zab/b.h"\nvoid a(void);\nstatic void back(void) { a(); }\n'
                            "void a(void) { b(back); }\nvoid (*const table[])(void) = {a};\n",
                 "zab/b.c": '#include "zab/b.h"\nvoid b(void (*call)(void)) { call(); }\n',
                 "zab/c.c": "void a(void);\nvoid (*const calls[])(void) = {a};\n"
                            "void c(void);\nvoid c(void) { }\n",
                 "zab/d.c": "void c(void); void d(void); void d(void) { c(); }\n"}
        self.assertEqual(self.check_with([], files, ["d", "table", "calls"]), [])

    def test_folders(self):
        self.put("server/read/view.h", "/* view */\nvoid view(void);\n")
        self.put("server/state/txn.h", "/* txn */\nvoid txn(void);\n")
        self.put("server/process/gate.h", "/* gate */\nvoid gate(void);\n")
        self.put("server/process/gate_int.h", "/* gate */\nvoid gate_own(void);\n")
        files = {"server/state/txn.c": "void txn(void); void view(void); void txn(void) { view(); }\n",
                 "server/read/view.c": "void txn(void); void view(void); void view(void) { txn(); }\n",
                 "server/process/gate.c": "void gate(void); void gate_own(void);\n"
                                          "void gate(void) { } void gate_own(void) { }\n",
                 "http/front.c": "void gate(void); void gate_own(void); void front(void);\n"
                                 "void front(void) { gate(); gate_own(); }\n"}
        known = [["server/read/view.c", "server/state/txn.c"]]
        found = self.check_with(known, files, ["front"])
        self.assertEqual(sorted(set(found)),
                         ["http/front.c:1", "server/read/view.c:1", "server/state/txn.c:1"])
        self.assertTrue(any("server/state/ may not include server/read/view.h" in message
                            for message in self.messages))
        self.assertTrue(any("calls gate_own" in message for message in self.messages))
        self.assertFalse(any("calls gate of" in message for message in self.messages))
        self.assertEqual(sum("circle of folders" in message for message in self.messages), 2)

    def test_a_function_has_a_caller(self):
        self.put("zab/a.h", "/* a */\nvoid a(void);\nvoid b(void);\nvoid c(void);\n"
                            "void d(void);\nvoid e(void);\nstatic inline void f(void) { e(); }\n")
        files = {"zab/a.c": '#include "zab/a.h"\nvoid a(void) { b(); }\n',
                 "zab/b.c": '#include "zab/a.h"\nvoid b(void) { }\nvoid d(void) { }\n'
                            "void c(void) { d(); }\nvoid e(void) { }\n",
                 "tests/unit/t.c": '#include "zab/a.h"\nvoid t(void);\nvoid t(void) { a(); c(); }\n'}
        self.assertEqual(self.check_with([], files, ()), ["zab/a.c:1", "zab/b.c:1"])
        self.assertEqual(self.messages, ["a has no user in the product",
                                         "c has no user in the product"])
        self.assertEqual(self.check_with([], files, ("a", "c")), [])

    def test_nothing_built(self):
        self.check("circles", build="/nowhere")
        self.assertEqual(self.result, common.SKIPPED)


class ClangTidy(Tree):
    def test_finds_and_remembers(self):
        self.put(".clang-tidy", "Checks: '-*,readability-braces-around-statements'\n")
        self.put("base/a.h", "/* a */\nint a(int x);\n")
        self.put("base/a.c", '#include "base/a.h"\nint a(int x)\n{\n    if (x)\n        return 1;\n'
                             "    return 0;\n}\n")
        build = os.path.join(self.root, "build")
        path = os.path.join(self.root, "base/a.c")
        self.put("build/compile_commands.json",
                 f'[{{"directory": "{build}", "file": "{path}", '
                 f'"command": "cc -I{self.root} -c {path}"}}]')
        self.assertEqual(self.check("clang_tidy", build=build), ["base/a.c:4"])
        self.assertIn("1 of 1 files analysed", self.notes[0])
        self.assertEqual(self.check("clang_tidy", build=build), ["base/a.c:4"])
        self.assertIn("0 of 1 files analysed", self.notes[0])
        self.put("base/a.h", "/* a */\nint a(int x); /* Changed. */\n")
        self.assertEqual(self.check("clang_tidy", build=build), ["base/a.c:4"])
        self.assertIn("1 of 1 files analysed", self.notes[0])


if __name__ == "__main__":
    unittest.main()
