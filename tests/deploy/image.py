#!/usr/bin/env python3
"""Makes the image of deploy/container without a daemon, and checks it. See README.md here.

Usage: image.py --context DIRECTORY --work DIRECTORY
DIRECTORY of --context is an unpacked source tarball. Obeys the Dockerfile: Debian's mmdebstrap
stands for `debian:12-slim`, a chroot for a container. Writes WORK/root, the file system of the
image, and WORK/image, an OCI layout; skopeo and umoci read it. Needs root and the network.
"""

import argparse
import contextlib
import gzip
import hashlib
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tarfile

from command import Failed, run

DOCKERFILE = "deploy/container/Dockerfile"
TAG = "zabra"
BYTES_MAX = 260 << 20  # The system of mmdebstrap is larger than debian:12-slim: it has documents.
KNOWN = {"FROM", "RUN", "COPY", "WORKDIR", "LABEL", "USER", "VOLUME", "EXPOSE", "STOPSIGNAL",
         "HEALTHCHECK", "ENTRYPOINT", "CMD"}


# ---- The Dockerfile. ----


def instructions(path):
    """Pairs of an instruction and its text; a backslash continues a line."""
    text = "\n".join(line for line in path.read_text().split("\n")
                     if not line.lstrip().startswith("#"))
    for line in text.replace("\\\n", " ").split("\n"):
        if line.strip():
            word, rest = line.strip().split(None, 1)
            if word not in KNOWN:
                raise Failed(f"{path}: {word} is not known here")
            yield word, rest.strip()


class Stage:
    """One stage: its root directory, and the configuration of an image."""

    def __init__(self, root):
        self.root = root
        self.folder = "/"
        self.config = {"Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]}

    def inside(self, command):
        """Runs a line of the shell in the stage."""
        with contextlib.ExitStack() as ends:
            for source, at, words in (("proc", "proc", ["-t", "proc"]),
                                      ("/dev", "dev", ["--bind"])):
                run("mount", *words, source, self.root / at)
                ends.callback(run, "umount", self.root / at)
            run("chroot", self.root, "/bin/sh", "-c", f"cd {self.folder} && {command}",
                env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root",
                     "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"})


def make_base(work):
    """What stands for debian:12-slim, with this machine's sources of packages."""
    base = work / "base"
    if not base.exists():
        sources = run("apt-get", "indextargets", "--format",
                      "deb $(REPO_URI) $(RELEASE) $(COMPONENT)", "Created-By: Packages",
                      "Origin: Debian")
        listed = work / "sources.list"
        listed.write_text("".join(sorted(set(sources.splitlines(keepends=True)))))
        run("mmdebstrap", "--variant=minbase", "bookworm", base, listed)
        shutil.rmtree(base / "usr/share/doc")
        shutil.rmtree(base / "usr/share/man", ignore_errors=True)
    return base


def prepare(root):
    """What a container runtime gives while an image is built; restored before it is written."""
    resolv = root / "etc/resolv.conf"
    resolv.unlink(missing_ok=True)
    shutil.copy("/etc/resolv.conf", resolv)
    for path in pathlib.Path("/etc/apt/apt.conf.d").glob("99*"):
        shutil.copy(path, root / "etc/apt/apt.conf.d")


def unprepare(root):
    (root / "etc/resolv.conf").unlink(missing_ok=True)
    for path in pathlib.Path("/etc/apt/apt.conf.d").glob("99*"):
        (root / "etc/apt/apt.conf.d" / path.name).unlink(missing_ok=True)


def copy(stages, stage, context, text):
    words = shlex.split(text)
    source = context
    if words[0].startswith("--from="):
        source = stages[words.pop(0).split("=")[1]].root
    given = source / words[0].lstrip("/")
    target = stage.root / words[1].lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    run("cp", "-a", "--no-preserve=ownership", f"{given}/." if given.is_dir() else given, target)


def obey(stages, stage, context, word, text):
    """Obeys one instruction."""
    config = stage.config
    if word == "RUN":
        stage.inside(text)
    elif word == "COPY":
        copy(stages, stage, context, text)
    elif word == "WORKDIR":
        stage.folder = config["WorkingDir"] = text
        (stage.root / text.lstrip("/")).mkdir(parents=True, exist_ok=True)
    elif word == "LABEL":
        config["Labels"] = dict(pair.split("=", 1) for pair in shlex.split(text))
    elif word in ("ENTRYPOINT", "CMD"):
        config["Entrypoint" if word == "ENTRYPOINT" else "Cmd"] = json.loads(text)
    elif word == "USER":
        config["User"] = text
    elif word == "VOLUME":
        config["Volumes"] = {text: {}}
    elif word == "EXPOSE":
        config["ExposedPorts"] = {f"{port}/tcp": {} for port in text.split()}
    elif word == "STOPSIGNAL":
        config["StopSignal"] = text
    else:  # HEALTHCHECK: the format of OCI has no place for it; the command is checked.
        stage.health = json.loads(text[text.index("CMD") + 3:])


def build(context, work):
    """Builds all stages; returns the last one."""
    stages = {}
    stage = None
    base = make_base(work)
    for word, text in instructions(context / DOCKERFILE):
        if word != "FROM":
            print(f"{word} {text[:100]}", flush=True)
            obey(stages, stage, context, word, text)
            continue
        image, *name = re.fullmatch(r"(\S+)(?: AS (\S+))?", text).groups()
        if image != "debian:12-slim":
            raise Failed(f"FROM {image}: only debian:12-slim is known here")
        stage = Stage(work / (name[0] or "root"))
        shutil.rmtree(stage.root, ignore_errors=True)
        run("cp", "-a", base, stage.root)
        prepare(stage.root)
        stages[name[0] or "root"] = stage
    unprepare(stage.root)
    return stage


# ---- The layout. ----


def put_blob(layout, data, media):
    """Writes a blob; returns its descriptor."""
    digest = hashlib.sha256(data).hexdigest()
    (layout / "blobs/sha256" / digest).write_bytes(data)
    return {"mediaType": media, "digest": f"sha256:{digest}", "size": len(data)}


def plain(entry):
    """The same bytes whenever and wherever it is made."""
    entry.mtime = 0
    entry.uname = entry.gname = ""
    return entry


def write_layer(root, path):
    """One layer with the whole root, its names in order. Returns the digest of the plain tar."""
    tar = path.with_suffix(".tar")
    with tarfile.open(tar, "w", format=tarfile.PAX_FORMAT) as out:
        for folder, folders, files in os.walk(root):
            folders.sort()
            for name in sorted(folders + files):
                full = pathlib.Path(folder) / name
                if full.is_dir() and not full.is_symlink() or not full.is_socket():
                    out.add(full, str(full.relative_to(root)), recursive=False, filter=plain)
    with open(tar, "rb") as data, gzip.GzipFile(path, "wb", compresslevel=1, mtime=0) as packed:
        shutil.copyfileobj(data, packed)
    with open(tar, "rb") as data:
        digest = hashlib.file_digest(data, "sha256").hexdigest()
    tar.unlink()
    return f"sha256:{digest}"


def write_layout(stage, work):
    layout = work / "image"
    shutil.rmtree(layout, ignore_errors=True)
    (layout / "blobs/sha256").mkdir(parents=True)
    packed = work / "layer.gz"
    diff = write_layer(stage.root, packed)
    machine = {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]
    config = {"created": "1970-01-01T00:00:00Z", "architecture": machine, "os": "linux",
              "config": stage.config, "rootfs": {"type": "layers", "diff_ids": [diff]}}
    media = "application/vnd.oci.image"
    manifest = {"schemaVersion": 2, "mediaType": f"{media}.manifest.v1+json",
                "config": put_blob(layout, json.dumps(config).encode(), f"{media}.config.v1+json"),
                "layers": [put_blob(layout, packed.read_bytes(), f"{media}.layer.v1.tar+gzip")]}
    described = put_blob(layout, json.dumps(manifest).encode(), f"{media}.manifest.v1+json")
    described["annotations"] = {"org.opencontainers.image.ref.name": TAG}
    (layout / "index.json").write_text(json.dumps(
        {"schemaVersion": 2, "mediaType": f"{media}.index.v1+json", "manifests": [described]}))
    (layout / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    packed.unlink()
    return layout


# ---- Checks. ----


def facts(root):
    """Each path with its type, mode, owner and contents."""
    found = {}
    for folder, folders, files in os.walk(root):
        for name in folders + files:
            full = pathlib.Path(folder) / name
            about = full.lstat()
            kept = os.readlink(full) if full.is_symlink() else \
                hashlib.sha256(full.read_bytes()).hexdigest() if full.is_file() else ""
            found[str(full.relative_to(root))] = (about.st_mode, about.st_uid, about.st_gid, kept)
    return found


def run_as_user(stage, *words):
    """Runs a command of the image as its user, without any variable of the environment."""
    return subprocess.run([shutil.which("chroot"), "--userspec=65532:65532", stage.root, *words],
                          env={}, capture_output=True, text=True, check=False)


def check_root(stage):
    root = stage.root
    loaded = run("chroot", root, "/usr/bin/ldd", "/usr/bin/zabra")
    if "not found" in loaded:
        raise Failed(f"a library is missing: {loaded}")
    version = run("chroot", "--userspec=65532:65532", root, "/usr/bin/zabra", "version")
    size = sum(path.lstat().st_size for path in root.rglob("*") if path.is_file())
    print(f"{version.strip()}; {size >> 20} MiB of files")
    if size > BYTES_MAX:
        raise Failed(f"the image has {size} bytes, more than {BYTES_MAX}")
    for path in root.rglob("*"):
        about = path.lstat()
        if about.st_uid == 65532 and path != root / "var/lib/zabra":
            raise Failed(f"{path} belongs to the user of the replica")
    usage = run_as_user(stage, *stage.config["Entrypoint"], *stage.config["Cmd"])
    if usage.returncode != 2 or "id: missing" not in usage.stderr:
        raise Failed(f"without a configuration: {usage.returncode} {usage.stderr}")
    health = run_as_user(stage, *stage.health)
    if health.returncode != 1 or "does not answer" not in health.stderr:
        raise Failed(f"the health check: {health.returncode} {health.stderr}")


def check_layout(stage, layout, work):
    said = json.loads(run("skopeo", "inspect", f"oci:{layout}:{TAG}"))
    if said["Labels"] != stage.config["Labels"] or said["Os"] != "linux":
        raise Failed(f"skopeo inspect: {said}")
    config = json.loads(run("skopeo", "inspect", "--config", f"oci:{layout}:{TAG}"))["config"]
    if config != stage.config:
        raise Failed(f"skopeo inspect --config: {config}")
    bundle = work / "bundle"
    shutil.rmtree(bundle, ignore_errors=True)
    run("umoci", "unpack", "--image", f"{layout}:{TAG}", bundle)
    runtime = json.loads((bundle / "config.json").read_text())["process"]
    if (runtime["user"]["uid"], runtime["args"]) != \
            (65532, stage.config["Entrypoint"] + stage.config["Cmd"]):
        raise Failed(f"umoci unpack: {runtime}")
    made, unpacked = facts(stage.root), facts(bundle / "rootfs")
    differ = {path for path in made.keys() | unpacked.keys() if made.get(path) != unpacked.get(path)}
    if differ:
        raise Failed(f"umoci unpack gives other files: {sorted(differ)[:10]}")
    shutil.rmtree(bundle)
    print(f"skopeo and umoci read {len(made)} files: {said['Digest']}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--context", required=True, type=pathlib.Path)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    args = parser.parse_args()
    try:
        stage = build(args.context, args.work)
        check_root(stage)
        check_layout(stage, write_layout(stage, args.work), args.work)
    except Failed as failed:
        print(failed)
        sys.exit(1)


main()
