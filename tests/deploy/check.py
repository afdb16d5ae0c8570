#!/usr/bin/env python3
"""The files of deploy/ are right, and cmake installs them. See README.md in this folder.

Usage: check.py CHECK --zabra BINARY --build DIRECTORY
Prints each fault, then "N checked, N wrong".
"""

import argparse
import contextlib
import fcntl
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile

import kustomize

TOP = pathlib.Path(__file__).resolve().parents[2]
DEPLOY = TOP / "deploy"
EXPOSURE = "16"  # Tenths: the bound of `systemd-analyze security`.
MAPPED_MAX = 24  # Shared objects of a running replica; with libcurl and libedit there are 44.
# What a replica does not use: clients, line editing, directories, Kerberos, remote shells.
UNUSED = re.compile(r"lib(curl|edit|ldap|lber|sasl2|gssapi|krb5|k5crypto|com_err|keyutils|ssh2?|rtmp|"
                    r"nghttp2|psl|brotli\w*|zstd|tinfo|bsd)[-.]")
LIBRARY = re.compile(r"/([^/\s]+\.so[.0-9]*)$", re.M)
LOADER = {"ld"}
SAME = {"c": "glibc", "m": "glibc", "dl": "glibc", "pthread": "glibc", "ssl": "openssl",
        "crypto": "openssl"}
SPDX_MEMBERS = ("name", "versionInfo", "downloadLocation", "licenseConcluded", "licenseDeclared",
                "copyrightText", "externalRefs")
KEY = re.compile(r"^#?([A-Za-z][A-Za-z0-9.]*)=(.*)$", re.M)
INSTALLED = """
bin/zabra
lib/systemd/system/zabra-backup.service
lib/systemd/system/zabra-backup.timer
lib/systemd/system/zabra.service
lib/sysusers.d/zabra.conf
lib/tmpfiles.d/zabra.conf
share/bash-completion/completions/zabra
share/doc/zabra/CHANGELOG.md
share/doc/zabra/examples/zabra.cfg
share/doc/zabra/monitoring/alerts.yaml
share/doc/zabra/licenses.txt
share/doc/zabra/monitoring/grafana.json
share/doc/zabra/openapi/asyncapi.json
share/doc/zabra/openapi/openapi.json
share/doc/zabra/zabra.spdx.json
share/fish/vendor_completions.d/zabra.fish
share/man/man1/zabra.1
share/man/man1/zabra-serve.1
share/zsh/site-functions/_zabra
""".split()

# Of "super" with the password "root".
SUPER_DIGEST = "super:zUZ0bpqYS7FucDXsnUgxOWTto1s="

NOT_HERE = 77
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


CLAIMS = [] # Sockets whose names claim ports, until this process ends.


def free_port():
    """A port below the kernel's ports for outgoing connections: free a moment ago, and claimed, so
    that no other check at the same time takes it."""
    for port in range(29000, 30000):
        claim = socket.socket(socket.AF_UNIX)
        with socket.socket() as probe:
            try:
                claim.bind(f"\0zabra-test-port-{port}")
                probe.bind(("127.0.0.1", port))
                CLAIMS.append(claim)
                return port
            except OSError:
                claim.close()
    raise RuntimeError("no free port")


def install(build, prefix):
    text, code = run("cmake", "--install", build, "--prefix", prefix)
    check(code == 0, text)


def check_service(args, scratch, name, command):
    """As it is installed, so that ExecStart names a program that exists."""
    unit = pathlib.Path(scratch) / f"lib/systemd/system/{name}.service"
    built = (pathlib.Path(args.build) / f"deploy/systemd/{name}.service").read_text()
    start = re.search(rf"^ExecStart=(\S+) {command}", built, re.M)
    check(start and start[1].endswith("/bin/zabra"), f"{name}.service does not call zabra {command}")
    unit.write_text(built.replace(start[1], f"{scratch}/bin/zabra"))
    text, code = run("systemd-analyze", "verify", "--man=no", unit)
    check(code == 0 and f"{name}." not in text, text)
    text, code = run("systemd-analyze", "security", "--offline=true", f"--threshold={EXPOSURE}", unit)
    check(code == 0, text)
    return re.sub(r"\\\n\s*", "", built)


def check_backup(args, scratch, unit):
    """The timer calls it each hour where it is enabled; its command line is one that zabra takes."""
    timer = pathlib.Path(scratch) / "lib/systemd/system/zabra-backup.timer"
    text, code = run("systemd-analyze", "verify", "--man=no", timer)
    check(code == 0 and "zabra-backup." not in text, text)
    check("\nOnCalendar=hourly\n" in timer.read_text(), "the timer is not hourly")
    check("[Install]" not in unit, "the backup can be enabled without its timer")
    check(not list(pathlib.Path(scratch).rglob("*.wants/*")), "a unit is enabled by its installation")
    words = re.search(r"^ExecStart=\S+ (.*)$", unit, re.M)[1].split()
    target = pathlib.Path(scratch) / "backups"
    target.mkdir()
    (pathlib.Path(scratch) / "password").write_text("root\n")
    words[-1] = str(target)
    check("Condition" not in unit, "an enabled backup can be skipped without a word")
    settings = dict(word.split("=", 1) for line in re.findall(r"^Environment=(.*)$", unit, re.M)
                    for word in line.split())
    check(settings["ZABRA_PASSWORD_FILE"] == "/etc/zabra/backup-password", str(settings))
    for file, user in ((f"{scratch}/password", True), ("", False)): # By password, and by certificate.
        env = os.environ | settings | {"ZABRA_PASSWORD_FILE": file}
        text, code = run(args.zabra, *words, "--curl", env=env if user else env | {"ZABRA_USER": ""})
        check(code == 0 and "/backup/v1" in text and ("super" in text) == user, text)


def check_places(unit):
    """The service may write each file and directory below /var that the example configuration
    shows, and systemd makes the directory."""
    made = {f"/var/{place}/{name}" for place, kind in (("lib", "State"), ("log", "Logs"))
            for name in re.findall(rf"^{kind}Directory=(\S+)$", unit, re.M)}
    shown = {value for _, value in KEY.findall((DEPLOY / "zabra.cfg").read_text())
             if value.startswith("/var/")}
    check(shown, "zabra.cfg shows no place below /var")
    for path in sorted(shown):
        check(made & {path, str(pathlib.Path(path).parent)},
              f"zabra.cfg shows {path}, but the unit may write {sorted(made)} only")


def check_signals():
    """Each command is the same program: a signal to all of its name ends those, too."""
    for page in [*TOP.glob("docs/**/*.md"), *DEPLOY.rglob("*"), *TOP.glob("debian/*")]:
        if page.is_file():
            found = re.search(r"\b(pidof|pkill|killall)\b.*", page.read_text())
            check(not found, f"{page.name}: {found and found[0]}: a signal to all processes zabra")


def check_unit(args, scratch):
    install(args.build, scratch)
    check_places(check_service(args, scratch, "zabra", "serve"))
    check_signals()
    check_backup(args, scratch, check_service(args, scratch, "zabra-backup", "backup"))
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
def replica_of(args, scratch, *more):
    """A replica with the example configuration once its port answers: the process, the port, and
    the lines of its log until then."""
    port = free_port()
    words = [args.zabra, "serve", "--config", DEPLOY / "zabra.cfg", "--dataDir", f"{scratch}/data",
             "--clientPort", str(port), *more]
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


def needed(program):
    """The libraries that the loader takes for the program, without their versions."""
    text, code = run("readelf", "-d", program)
    check(code == 0, text)
    return set(re.findall(r"NEEDED.*\[(?:lib)?([a-z0-9-]+?)[-.]", text))


def check_version(args, scratch):
    """`zabra version` and where else the version stands."""
    cmake = (TOP / "CMakeLists.txt").read_text()
    version = re.search(r"^project\(zabra VERSION ([0-9.]+) ", cmake, re.M)[1]
    text, code = run(args.zabra, "version")
    check((text, code) == (f"zabra {version}\n", 0), text)
    text, code = run(args.zabra, "version", "--verbose", "-o", "json")
    check(code == 0, text)
    about = json.loads(text)
    check(about["version"] == version, text)
    if (TOP / ".git").exists():
        commit, _ = run("git", "-C", TOP, "rev-parse", "HEAD")
        check(about["commit"] == commit.strip(), f"{about['commit']}, but git says {commit}")
    for library in about["libraries"]:
        check(library["loaded"] or library["name"] == "libedit", f"{library['name']} is not loaded")
    text, code = run(args.zabra, "version", "--verbose")
    check(code == 0 and about["commit"] in text, text)
    for name in ("openapi", "asyncapi"):
        document = json.loads((pathlib.Path(args.build) / f"openapi/{name}.json").read_text())
        check(document["info"]["version"] == version, f"{name}.json: {document['info']['version']}")
    for page in [TOP / "README.md", *TOP.glob("openapi/*.yaml"), *TOP.glob("debian/*")]:
        if page.is_file() and page.name != "changelog":
            check(version not in page.read_text(), f"{page.name} repeats the version {version}")
    check_tags(version)
    check_upgrade(version)


def check_upgrade(version):
    """The upgrade from the last release is tested, and described where its operators look."""
    changes = (TOP / "CHANGELOG.md").read_text()
    headings = re.findall(r"^## (?:Unreleased: )?([0-9.]+)(?: - (\S+))?$", changes, re.M)
    check(headings[0][0] == version, f"CHANGELOG.md begins with {headings[0][0]}, not {version}")
    before = next(name for name, date in headings[1:] if date)
    script = (TOP / "tests/long/old_release.sh").read_text()
    check(f"\nrelease_before={before}\n" in script, f"tests/long do not upgrade from {before}")
    old, new = (name.rsplit(".", 1)[0] for name in (before, version))
    if old != new:
        check(f"\n### From {old} to {new}\n" in (TOP / "docs/operating.md").read_text(),
              f"docs/operating.md does not say how {old} becomes {new}")
        anchor = f"operating.md#from-{old.replace('.', '')}-to-{new.replace('.', '')})"
        check(anchor in changes.split("\n## ")[1], f"CHANGELOG.md does not lead to {anchor}")


TAG = re.compile(r"\bzabra:([0-9]+\.[\w.-]+)|^ *newTag: *\"?([^\"\s]+)", re.M)
TAGGED = ("container/compose.yaml", "kubernetes/overlays/development/kustomization.yaml",
          "kubernetes/overlays/production/kustomization.yaml", "kubernetes/restore.yaml")


def check_tags(version):
    """The image that the manifests name is that of this version; pages and comments say VERSION."""
    for page in [*DEPLOY.rglob("*"), TOP / "docs/kubernetes.md"]:
        tags = [one or other for one, other in TAG.findall(page.read_text())] if page.is_file() else []
        name = str(page.relative_to(DEPLOY)) if page.is_relative_to(DEPLOY) else page.name
        wanted = [version] if name in TAGGED else []
        check(tags == wanted, f"{name} has the tags {tags}, not {wanted}")


# The users of a machine with the package; the replica's is no longer there after a purge.
USERS = {"passwd": "root:x:0:0:root:/root:/bin/sh\n"
                   "zabra:x:990:990:zabra:/var/lib/zabra:/usr/sbin/nologin\n",
         "group": "root:x:0:\nzabra:x:990:\n", "shadow": "root:*:19000::::::\nzabra:!:19000::::::\n",
         "gshadow": "root:*::\nzabra:!::\n",
         "nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\n"}
PURGED = ("etc/zabra", "var/lib/zabra", "var/log/zabra")
BACKUPS = ("var/lib/zabra-backup", "var/lib/zabra-backup/full")


def check_purge(_args, scratch):
    """postrm in a root directory of its own: what it removes, and whose the backups are then. The
    next user that is made may get the number of the one that has gone."""
    if os.geteuid() != 0:
        print("this needs root")
        sys.exit(NOT_HERE)
    root = pathlib.Path(scratch)
    (root / "etc").mkdir()
    for name, text in USERS.items():
        (root / "etc" / name).write_text(text)
    (root / "postrm").write_text((TOP / "debian/zabra.postrm").read_text())
    for name in PURGED + BACKUPS[:1]:
        (root / name).mkdir(parents=True)
        (root / name / "full").write_text("data")
        for path in (root / name, root / name / "full"):
            os.chown(path, 990, 990)
    (root / BACKUPS[0]).chmod(0o700)
    (root / BACKUPS[0] / "link").symlink_to("/etc/passwd")
    os.chown(root / BACKUPS[0] / "link", 990, 990, follow_symlinks=False)
    lines = ["set -e"]
    for name in ("usr", "bin", "sbin", "lib", "lib64", "dev"):
        lines.append(f"mkdir {root}/{name}; mount --rbind -o ro /{name} {root}/{name}")
    lines.append(f"exec chroot {root} /bin/sh /postrm purge")
    text, code = run("unshare", "--mount", "--propagation", "private", "sh", "-c", "; ".join(lines))
    check(code == 0, text)
    for name in PURGED:
        check(not (root / name).exists(), f"a purge leaves /{name}")
    check("zabra" not in (root / "etc/passwd").read_text() + (root / "etc/group").read_text(),
          "a purge leaves the user")
    for name in (*BACKUPS, f"{BACKUPS[0]}/link"):
        about = (root / name).lstat()
        check((about.st_uid, about.st_gid) == (0, 0), f"/{name} belongs to {about.st_uid}")
    check((root / BACKUPS[0]).stat().st_mode & 0o777 == 0o700, "others may read the backups")


class RestoreJob:
    """The job of deploy/kubernetes/restore.yaml, as a process with a volume and with backups."""

    def __init__(self, args, scratch):
        [job] = kustomize.documents(DEPLOY / "kubernetes/restore.yaml")
        [container] = job["spec"]["template"]["spec"]["containers"]
        mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        check(container["workingDir"] == mounts["data"], f"restores in {container['workingDir']}")
        self.backups = scratch / "backups"
        self.volume = scratch / "volume"
        self.words = container["command"] + [word.replace(mounts["backups"], str(self.backups))
                                             for word in container["args"]]
        self.env = {"PATH": f"{scratch}:{os.environ['PATH']}"}
        program = scratch / "zabra"  # In the middle of the job it tries to lock, as a replica does.
        program.write_text("#!/bin/sh\nflock -n data true && echo data is not locked\n"
                           f"exec {pathlib.Path(args.zabra).resolve()} \"$@\"\n")
        program.chmod(0o755)

    def run(self):
        """Exit code and output."""
        ended = subprocess.run(self.words, cwd=self.volume, env=self.env, text=True, check=False,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return ended.returncode, ended.stdout

    def has(self, *patterns):
        """Whether the volume has one entry for each pattern, and no other."""
        names = sorted(path.name for path in self.volume.iterdir())
        return len(names) == len(patterns) and all(map(re.fullmatch, sorted(patterns), names))


def check_restore(args, scratch):
    """The old data stays where it is until a restore has succeeded, and in the volume even then."""
    scratch = pathlib.Path(scratch)
    job = RestoreJob(args, scratch)
    job.backups.mkdir()
    data = job.volume / "data"
    data.mkdir(parents=True)
    (data / "old").touch()
    secret = scratch / "password"
    secret.write_text("root\n")
    secret.chmod(0o600)
    with replica_of(args, scratch, "--superDigest", SUPER_DIGEST) as (_, port, _):
        client = ["--endpoints", f"127.0.0.1:{port}", "--timeout", "20s", "--user", "super",
                  "--password-file", str(secret)]
        for words in (["create", "/kept", "x"], ["backup", str(job.backups)]):
            text, code = run(args.zabra, *words, *client)
            check(code == 0, text)
    [backup] = job.backups.iterdir()
    whole = backup.read_bytes()

    backup.write_bytes(whole[:-1])
    code, text = job.run()
    check(code != 0 and "nothing was written" in text, f"a damaged backup: {code}: {text}")
    check(job.has("data") and (data / "old").exists(), "a restore that failed has touched the data")
    backup.write_bytes(whole)
    lock = os.open(data, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    code, text = job.run()
    check(code != 0 and "scale to 0" in text, f"while a replica runs: {code}: {text}")
    check(job.has("data"), "a restore has begun while a replica runs")
    os.close(lock)

    for left in ("restored", "restored.part"):  # As a job leaves them that was killed.
        (job.volume / left).mkdir()
        (job.volume / left / "half").touch()
    code, text = job.run()
    check(code == 0 and "replica 1 at zxid" in text, f"the restore: {code}: {text}")
    check(job.has("data", r"data\.before-\d{8}T\d{6}Z"), f"the volume: {os.listdir(job.volume)}")
    check("not locked" not in text, "a replica may start while the job restores")
    check([path.name for path in job.volume.glob("data.before-*/*")] == ["old"], "the old data is gone")
    shutil.rmtree(job.volume)
    job.volume.mkdir()
    code, text = job.run()
    check(code == 0 and "not locked" not in text, f"into a new volume: {code}: {text}")
    check(job.has("data"), f"the new volume: {os.listdir(job.volume)}")
    text, code = run(args.zabra, "inspect", data)
    check(code == 0, text)


def check_sbom(args, scratch):
    """The list of parts is SPDX 2.3, and has each part that the program has."""
    install(args.build, scratch)
    place = pathlib.Path(scratch) / "share/doc/zabra"
    sbom = json.loads((place / "zabra.spdx.json").read_text())
    about = json.loads(run(args.zabra, "version", "--verbose", "-o", "json")[0])
    check(sbom["spdxVersion"] == "SPDX-2.3" and sbom["dataLicense"] == "CC0-1.0", "no SPDX 2.3")
    check(sbom["SPDXID"] == "SPDXRef-DOCUMENT", sbom["SPDXID"])
    check(re.fullmatch(r"https://[^#]+", sbom["documentNamespace"]), sbom["documentNamespace"])
    check(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", sbom["creationInfo"]["created"]),
          sbom["creationInfo"]["created"])
    for creator in sbom["creationInfo"]["creators"]:
        check(re.match(r"(Tool|Organization): ", creator), creator)
    ids = [part["SPDXID"] for part in sbom["packages"]]
    check(len(ids) == len(set(ids)), f"an id is there twice: {ids}")
    for part in sbom["packages"]:
        check(re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", part["SPDXID"]), part["SPDXID"])
        for member in SPDX_MEMBERS:
            check(member in part, f"{part['name']} has no {member}")
        for checksum in part.get("checksums", []):
            check(re.fullmatch(r"[0-9a-f]{128}", checksum["checksumValue"]), f"{part['name']}: {checksum}")
    for relation in sbom["relationships"]:
        for end in (relation["spdxElementId"], relation["relatedSpdxElement"]):
            check(end in [*ids, "SPDXRef-DOCUMENT"], f"{end} is no part")
    found = {(part["name"], part["versionInfo"]): part for part in sbom["packages"]}
    program = found.get(("zabra", about["version"]))
    check(program and program["licenseDeclared"] == "NOASSERTION", "zabra is not the program")
    for library in about["libraries"]:
        check((library["name"], library["built"]) in found, f"{library} is not in the list")
    names = {re.sub(r"^lib", "", part["name"]) for part in sbom["packages"]}
    for name in needed(args.zabra) - LOADER:
        check(SAME.get(name, name) in names, f"lib{name}, which the loader takes, is not in the list")
    bundle = pathlib.Path(args.build) / "web/bundle"
    packages = json.loads((bundle / "packages.json").read_text()) if bundle.exists() else []
    licences = (place / "licenses.txt").read_text() if packages else ""
    for package in packages:
        part = found.get((package["name"], package["version"]))
        check(part and part["licenseDeclared"] == package["license"], f"{package['name']} is not in the list")
        check(f"{package['name']} {package['version']}\n" in licences, f"no licence of {package['name']}")


def check_texts(share, commands):
    """Manual pages and completions are understood by what reads them, and name each command."""
    for page in sorted((share / "man/man1").iterdir()):
        text = page.read_text()
        check(text.startswith(".TH ZABRA") and "\n.SH NAME\n" in text, f"{page.name} is no manual page")
    main_page = (share / "man/man1/zabra.1").read_text()
    bash = share / "bash-completion/completions/zabra"
    text, code = run("bash", "-n", bash)
    check(code == 0, text)
    for name in commands:
        check(name in main_page, f"zabra.1 does not name {name}")
    for shell in (bash, share / "zsh/site-functions/_zabra", share / "fish/vendor_completions.d/zabra.fish"):
        check("zabra __complete" in shell.read_text(), f"{shell.name} does not ask zabra")


def check_install(args, scratch):
    install(args.build, scratch)
    found = {str(path.relative_to(scratch)) for path in pathlib.Path(scratch).rglob("*")
             if path.is_file()}
    for path in INSTALLED:
        check(path in found, f"{path} is not installed")
    help_json, _ = run(args.zabra, "help", "-o", "json")
    commands = [command["name"] for command in json.loads(help_json)["commands"]]
    manuals = {f"share/man/man1/zabra-{name}.1" for name in commands}
    pages = {f"share/doc/zabra/{path.relative_to(TOP)}" for path in (TOP / "docs").rglob("*")
             if path.is_file()}
    for path in sorted((manuals | pages) - found):
        check(False, f"{path} is not installed")
    for path in sorted(found - manuals - pages - set(INSTALLED)):
        check(False, f"{path} is installed, but not documented")
    readme = (DEPLOY / "README.md").read_text()
    for path in sorted(found):
        if path.startswith(("lib/", "share/doc/")) and path not in pages:
            check(path in readme or str(pathlib.Path(path).parent) in readme,
                  f"deploy/README.md does not mention {path}")
    check_texts(pathlib.Path(scratch) / "share", commands)


def main():
    checks = {"unit": check_unit, "config": check_config, "version": check_version, "sbom": check_sbom,
              "restore": check_restore, "purge": check_purge,
              "mapped": check_mapped,
              "install": check_install}
    parser = argparse.ArgumentParser()
    parser.add_argument("check", choices=checks)
    parser.add_argument("--zabra", required=True)
    parser.add_argument("--build", required=True)
    args = parser.parse_args()
    if not (pathlib.Path(args.build) / "cli/written/stamp").exists():
        sys.exit("what is installed is not built yet: build the target tests.deploy")
    with tempfile.TemporaryDirectory() as scratch:
        checks[args.check](args, scratch)
    print(f"{checked} checked, {wrong} wrong")
    sys.exit(1 if wrong else 0)


main()
