#!/usr/bin/env python3
"""The files of deploy/ are right, and cmake installs them. See README.md in this folder.

Usage: check.py CHECK --zabra BINARY --build DIRECTORY
Prints each fault, then "N checked, N wrong".
"""

import argparse
import contextlib
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parents[2]
DEPLOY = TOP / "deploy"
EXPOSURE = "16"  # Tenths: the bound of `systemd-analyze security`.
MAPPED_MAX = 24  # Shared objects of a running replica; with libcurl and libedit there are 44.
# What a replica does not use: clients, line editing, directories, Kerberos, remote shells.
UNUSED = re.compile(r"lib(curl|edit|ldap|lber|sasl2|gssapi|krb5|k5crypto|com_err|keyutils|ssh2?|rtmp|"
                    r"nghttp2|psl|brotli\w*|zstd|tinfo|bsd)[-.]")
LIBRARY = re.compile(r"/([^/\s]+\.so[.0-9]*)$", re.M)
KEY = re.compile(r"^#?([A-Za-z][A-Za-z0-9.]*)=(.*)$", re.M)
INSTALLED = """
bin/zabra
lib/systemd/system/zabra.service
lib/sysusers.d/zabra.conf
lib/tmpfiles.d/zabra.conf
share/bash-completion/completions/zabra
share/doc/zabra/examples/zabra.cfg
share/doc/zabra/monitoring/alerts.yaml
share/doc/zabra/monitoring/grafana.json
share/fish/vendor_completions.d/zabra.fish
share/man/man1/zabra.1
share/man/man1/zabra-serve.1
share/zsh/site-functions/_zabra
""".split()

checked = 0
wrong = 0


def check(holds, fault):
    global checked, wrong
    checked += 1
    if not holds:
        wrong += 1
        print(fault)


def run(*words, env=None):
    """Output and exit code of a command."""
    ended = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                           check=False, env=env)
    return ended.stdout, ended.returncode


def free_port():
    """A port that was free a moment ago; below the kernel's ports for outgoing connections."""
    for port in range(29000, 30000):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue
    raise RuntimeError("no free port")


def install(build, prefix):
    text, code = run("cmake", "--install", build, "--prefix", prefix)
    check(code == 0, text)


def check_unit(args, scratch):
    """As it is installed, so that ExecStart names a program that exists."""
    install(args.build, scratch)
    unit = pathlib.Path(scratch) / "lib/systemd/system/zabra.service"
    built = (pathlib.Path(args.build) / "deploy/systemd/zabra.service").read_text()
    start = re.search(r"^ExecStart=(\S+) serve", built, re.M)
    check(start and start[1].endswith("/bin/zabra"), "the unit does not start zabra")
    unit.write_text(built.replace(start[1], f"{scratch}/bin/zabra"))
    text, code = run("systemd-analyze", "verify", "--man=no", unit)
    check(code == 0 and "zabra.service" not in text, text)
    text, code = run("systemd-analyze", "security", "--offline=true", f"--threshold={EXPOSURE}", unit)
    check(code == 0, text)
    text, code = run("systemd-sysusers", "--dry-run", DEPLOY / "systemd/zabra.sysusers.conf")
    check(code == 0 and "zabra" in text, text)
    root = pathlib.Path(scratch) / "root"
    (root / "etc").mkdir(parents=True)
    (root / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\nzabra:x:0:0::/:/bin/false\n")
    (root / "etc/group").write_text("root:x:0:\nzabra:x:0:\n")
    text, code = run("systemd-tmpfiles", "--create", f"--root={root}",
                     DEPLOY / "systemd/zabra.tmpfiles.conf")
    check(code == 0, text)
    for path, mode in (("etc/zabra", 0o750), ("var/lib/zabra", 0o700)):
        check((root / path).is_dir() and (root / path).stat().st_mode & 0o777 == mode,
              f"{path} is not made with mode {mode:o}")


@contextlib.contextmanager
def replica_of(args, scratch):
    """A replica with the example configuration once its port answers: the process, the port, and
    the lines of its log until then."""
    port = free_port()
    words = [args.zabra, "serve", "--config", DEPLOY / "zabra.cfg", "--dataDir", f"{scratch}/data",
             "--clientPort", str(port)]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as replica:
        lines = []
        for line in replica.stderr:
            lines.append(line)
            if " answers on " in line or line.startswith("zabra: "):
                break
        try:
            yield replica, port, lines
        finally:
            replica.terminate()
            replica.stderr.read()


def check_config(args, scratch):
    text = (DEPLOY / "zabra.cfg").read_text()
    known, _ = run(args.zabra, "help", "serve")
    for key, value in KEY.findall(text):
        name = "server.N" if key.startswith("server.") else key
        check(re.search(rf"^  {re.escape(name)} ", known, re.M), f"zabra.cfg: {key} is no key")
        check(value, f"zabra.cfg: {key} has no value")
    with replica_of(args, scratch) as (_, _, lines):
        pass
    check(any(" answers on " in line for line in lines), "".join(lines))
    check(not any(" WARN config " in line for line in lines), "".join(lines))


def check_mapped(args, scratch):
    """A replica maps what it uses, also after it has served; the command line loads libcurl."""
    with replica_of(args, scratch) as (replica, port, lines):
        check(any(" answers on " in line for line in lines), "".join(lines))
        ready = ["--endpoints", f"127.0.0.1:{port}", "--timeout", "20s"]
        text, code = run(args.zabra, "create", "/deploy", "x", *ready)
        check(code == 0, text)
        text, code = run(args.zabra, "get", "/deploy", *ready)
        check((text, code) == ("x", 0), f"get /deploy: {code}: {text}")
        maps = pathlib.Path(f"/proc/{replica.pid}/maps").read_text()
        mapped = sorted(set(LIBRARY.findall(maps)))
    check("libwebsockets-evlib_ev.so" in mapped, f"no event plug-in among {mapped}")
    check(len(mapped) <= MAPPED_MAX, f"{len(mapped)} shared objects: {' '.join(mapped)}")
    for name in mapped:
        check(not UNUSED.match(name), f"a replica maps {name}")

    (pathlib.Path(scratch) / "libcurl.so.4").touch()  # The loader takes it for the library.
    broken = {**os.environ, "LD_LIBRARY_PATH": scratch}
    for words, code in ((["get", "/x"], 1), (["lock", "l", "--", "true"], 125)):
        text, got = run(args.zabra, *words, env=broken)
        check(got == code and "install the package libcurl4" in text, f"{words[0]}: {got}: {text}")
    text, got = run(args.zabra, "get", "/x", "-o", "json", env=broken)
    check(got == 1 and json.loads(text)["error"]["code"] == "NoLibrary", f"{got}: {text}")
    text, got = run(args.zabra, "set", "/x", "y", "--curl", env=broken)
    check(got == 0 and text.startswith("curl "), f"set --curl: {got}: {text}")


def check_install(args, scratch):
    install(args.build, scratch)
    found = {str(path.relative_to(scratch)) for path in pathlib.Path(scratch).rglob("*")
             if path.is_file()}
    for path in INSTALLED:
        check(path in found, f"{path} is not installed")
    manuals = {path for path in found if path.startswith("share/man/man1/zabra-")}
    for path in sorted(found - manuals - set(INSTALLED)):
        check(False, f"{path} is installed, but not documented")
    readme = (DEPLOY / "README.md").read_text()
    for path in sorted(found):
        if path.startswith(("lib/", "share/doc/")):
            check(path in readme or str(pathlib.Path(path).parent) in readme,
                  f"deploy/README.md does not mention {path}")


def main():
    checks = {"unit": check_unit, "config": check_config, "mapped": check_mapped,
              "install": check_install}
    parser = argparse.ArgumentParser()
    parser.add_argument("check", choices=checks)
    parser.add_argument("--zabra", required=True)
    parser.add_argument("--build", required=True)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        checks[args.check](args, scratch)
    print(f"{checked} checked, {wrong} wrong")
    sys.exit(1 if wrong else 0)


main()
