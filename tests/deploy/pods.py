"""Plays the pods of deploy/kubernetes as processes, from the manifests themselves.

A pod is a process with its own host name, network, mounts and root directory; its environment,
arguments, volumes, user and rights are those of the StatefulSet. This file is kubelet (start,
probes, exec, SIGTERM with grace), name service (a file of hosts, which may be late) and service
(the pods that are ready). Everything happens in a network of its own, which nothing else reaches.
Needs root.
"""

import base64
import contextlib
import ctypes
import hashlib
import http.client
import os
import pathlib
import re
import shlex
import shutil
import ssl
import subprocess
import time

from command import Failed, run

NAMESPACE = "default"
NETWORK = "10.244.7."
BRIDGE = "zabra-pods"
PASSWORD = "a password of the super user"
CLONE_NEWNET = 0x40000000
SYSTEM = ("usr", "bin", "sbin", "lib", "lib64")
DEVICES = ("null", "random", "urandom", "zero")
VARIABLE = re.compile(r"\$\(([A-Za-z_][A-Za-z0-9_]*)\)")


def wait(what, holds, seconds):
    """Waits until the condition holds; returns its value."""
    end = time.monotonic() + seconds
    value = holds()
    while not value:
        if time.monotonic() > end:
            raise Failed(f"not within {seconds} s: {what}")
        time.sleep(0.1)
        value = holds()
    return value


def find(items, kind, name):
    """The document of this kind and name."""
    for item in items:
        if item["kind"] == kind and item["metadata"]["name"] == name:
            return item
    raise Failed(f"the manifests have no {kind} {name}")


class Reply:
    """An answer: status 0 without one."""

    def __init__(self, status, text):
        self.status = status
        self.text = text


class Pod:
    """One pod, which may be started again and again, each time with another address."""

    def __init__(self, cluster, name, spec, ordinal=None):
        self.cluster = cluster
        self.name = name
        self.spec = spec
        [self.container] = spec["containers"]
        self.ordinal = ordinal  # None: no pod of the StatefulSet.
        self.folder = cluster.folder / self.name
        self.log = cluster.folder / f"{self.name}.log"
        self.starts = 0
        self.process = None
        self.ip = None

    # ---- What the manifests say. ----

    def claim(self, name):
        """The volume of a claim; empty when it is new: the group of the pod may write."""
        data = self.cluster.folder / "claims" / name
        if not data.exists():
            data.mkdir(parents=True)
            os.chown(data, 0, self.spec["securityContext"]["fsGroup"])
            data.chmod(0o2770)
        return data

    def environment(self):
        """The variables of the container, in their order, as the kubelet expands them."""
        values = {}
        for entry in self.container.get("env", []):
            values[entry["name"]] = self.value_of(entry, values)
        return values

    def value_of(self, entry, known):
        if "value" in entry:
            return VARIABLE.sub(lambda found: known.get(found[1], found[0]), entry["value"])
        source = entry["valueFrom"]
        if "fieldRef" in source:
            return {"metadata.name": self.name,
                    "metadata.namespace": NAMESPACE}[source["fieldRef"]["fieldPath"]]
        ref = source["secretKeyRef"]
        return self.cluster.secrets[ref["name"]][ref["key"]]

    def volume(self, name):
        """The folder that is mounted."""
        folder = self.folder / "volumes" / name
        for volume in self.spec["volumes"]:
            if volume["name"] != name:
                continue
            if "persistentVolumeClaim" in volume:
                return self.claim(volume["persistentVolumeClaim"]["claimName"])
            if "secret" in volume:
                said = volume["secret"]
                texts = self.cluster.secrets[said["secretName"]]
            else:
                said = volume["configMap"]
                texts = find(self.cluster.items, "ConfigMap", said["name"])["data"]
            wanted = {entry["key"]: entry["path"] for entry in
                      said.get("items", [{"key": key, "path": key} for key in texts])}
            return self.project(folder, {path: texts[key] for key, path in wanted.items()},
                                said.get("defaultMode", 0o644))
        return self.claim(f"{name}-{self.name}")

    def project(self, folder, texts, mode):
        """Files as the kubelet projects them: links to a folder that is replaced as a whole."""
        shutil.rmtree(folder, ignore_errors=True)
        data = folder / "..2026_11_27"
        data.mkdir(parents=True)
        (folder / "..data").symlink_to(data.name)
        for name, text in texts.items():
            (data / name).write_text(text)
            os.chown(data / name, 0, self.spec["securityContext"]["fsGroup"])
            (data / name).chmod(mode)
            (folder / name).symlink_to(f"..data/{name}")
        return folder

    # ---- Kubelet. ----

    def script(self, words):
        """Makes the pod's root and its mounts, waits for the network, and becomes the program."""
        root = self.folder / "root"
        lines = [f"hostname {self.name}", *self.cluster.root_lines(root, self.folder),
                 f"mount --bind {self.cluster.names} {root}/etc/hosts",
                 f"mount -t proc proc {root}/proc"]
        for device in DEVICES:
            lines += [f"touch {root}/dev/{device}",
                      f"mount --bind /dev/{device} {root}/dev/{device}"]
        ends = []
        for mount in self.container["volumeMounts"]:
            at = f"{root}{mount['mountPath']}"
            lines += [f"mkdir -p {at}", f"mount --bind {self.volume(mount['name'])} {at}"]
            if mount.get("readOnly"):
                ends.append(f"mount -o remount,bind,ro {at}")
        user = self.spec["securityContext"]
        become = ["exec", "setpriv", "--no-new-privs", "chroot",
                  f"--userspec={user['runAsUser']}:{user['runAsGroup']}",
                  f"--groups={user['fsGroup']}", str(root), *words]
        ends += [f"mount -o remount,bind,ro {root}", "read go",
                 " ".join(shlex.quote(word) for word in become)]
        return "set -e; umask 022; " + "; ".join(lines + ends)

    def start(self):
        """Starts the container in a new network with a new address."""
        words = [*self.container.get("command", [self.cluster.program]), *self.container["args"]]
        if "workingDir" in self.container:
            words = ["/bin/sh", "-c", 'cd "$0" && exec "$@"', self.container["workingDir"], *words]
        (self.folder / "root").mkdir(parents=True, exist_ok=True)
        self.starts += 1
        self.cluster.addresses += 1
        self.ip = f"{NETWORK}{self.cluster.addresses}"
        with open(self.log, "a", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                ["unshare", "--mount", "--uts", "--net", "--propagation", "private", "sh", "-c",
                 self.script(words)],
                env={"PATH": f"{os.environ['PATH']}:/", **self.environment()},
                stdin=subprocess.PIPE, stdout=log, stderr=log)
        self.connect()
        with contextlib.suppress(BrokenPipeError):  # The log says why.
            self.process.stdin.write(b"\n")
            self.process.stdin.close()

    def connect(self):
        """Gives the pod its interface, once it is in a network of its own."""
        pid = self.process.pid
        own = os.readlink("/proc/self/ns/net")
        cable = f"pod{self.cluster.addresses}"
        wait(f"{self.name} has its own network",
             lambda: self.process.poll() is not None or os.readlink(f"/proc/{pid}/ns/net") != own,
             20)
        run("ip", "link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", pid)
        run("ip", "link", "set", cable, "master", BRIDGE, "up")
        run("nsenter", "-t", pid, "-n", "sh", "-c",
            f"ip address add {self.ip}/24 dev eth0; ip link set eth0 up; ip link set lo up")

    def stop(self):
        """SIGTERM, the grace of the manifest, and only then SIGKILL. Returns the exit code."""
        self.process.terminate()
        try:
            return self.process.wait(self.spec["terminationGracePeriodSeconds"])
        except subprocess.TimeoutExpired as late:
            self.process.kill()
            raise Failed(f"{self.name} did not end within its grace") from late

    def kill(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
        if self.process:
            self.process.wait()

    def exec(self, *words):
        """Runs the program in the pod, as `kubectl exec` does; the exit code and what it said."""
        user = self.spec["securityContext"]["runAsUser"]
        ended = subprocess.run(
            ["nsenter", "-t", str(self.process.pid), "-m", "-u", "-n", "-r", "-S", str(user), "-G",
             str(user), self.cluster.program, *words],
            env=self.environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            cwd="/", check=False)
        return ended.returncode, ended.stdout

    def super(self, *words, seconds=60):
        """As the super user, again until it succeeds: the leader may have changed."""
        said = []

        def done():
            code, text = self.exec(*words, "--user", "super")
            said[:] = [text]
            return code == 0

        try:
            wait(" ".join(words), done, seconds)
        except Failed as failed:
            raise Failed(f"{failed}: {said[0]}") from failed
        return said[0]

    def probe(self, kind):
        """One of the probes of the manifest: whether it succeeds, and the answer."""
        said = self.container[f"{kind}Probe"]
        port = next(entry["containerPort"] for entry in self.container["ports"]
                    if entry["name"] == said["httpGet"]["port"])
        return self.cluster.call(self, "GET", said["httpGet"]["path"] + "?verbose",
                                 host=f"{self.ip}:{port}", port=port,
                                 timeout=said.get("timeoutSeconds", 1))

    def is_ready(self):
        return self.process.poll() is None and self.probe("readiness").status == 200

    def says(self, text):
        return text in self.log.read_text(errors="replace")


class Cluster:
    """The StatefulSet, its names and its service."""

    def __init__(self, items, folder, program, image=None):
        self.items = items
        self.folder = pathlib.Path(folder)
        self.image = image
        self.outside = program
        self.program = "/usr/bin/zabra" if image else "/zabra"
        self.spec = find(items, "StatefulSet", "zabra")["spec"]["template"]["spec"]
        self.addresses = 1
        self.pods = []
        self.published = set()
        self.names = self.folder / "hosts"
        self.names.write_text("127.0.0.1 localhost\n")
        digest = base64.b64encode(hashlib.sha1(f"super:{PASSWORD}".encode()).digest()).decode()
        self.secrets = {
            "zabra-peers": {"secret": base64.b64encode(os.urandom(32)).decode() + "\n"},
            "zabra-super": {"digest": f"super:{digest}", "password": PASSWORD + "\n"}}
        self.tls = None

    def make_certificates(self):
        """The secret zabra-tls, with the names that the page about Kubernetes lists."""
        own = self.folder / "tls"
        names = f"zabra,zabra.{NAMESPACE}.svc,*.zabra-peers.{NAMESPACE}.svc,localhost,127.0.0.1"
        run(self.outside, "cert", "ca", "--dir", own)
        run(self.outside, "cert", "server", "--dir", own, "--name", "zabra", "--san", names)
        self.secrets["zabra-tls"] = {"tls.crt": (own / "zabra.pem").read_text(),
                                     "tls.key": (own / "zabra.key").read_text(),
                                     "ca.crt": (own / "ca.pem").read_text()}
        self.tls = ssl.create_default_context(cafile=own / "ca.pem")
        self.tls.check_hostname = False  # A connection is to the address of a pod.

    def root_lines(self, root, folder):
        """Makes the root directory of a pod: the image's, or the system of this machine."""
        if self.image:
            upper = folder / "upper"
            work = folder / "work"
            upper.mkdir(exist_ok=True)
            work.mkdir(exist_ok=True)
            return [f"mount -t overlay overlay -o lowerdir={self.image},upperdir={upper},"
                    f"workdir={work} {root}", f"touch {root}/etc/hosts"]
        lines = [f"mount -t tmpfs tmpfs {root}", f"mkdir {root}/etc {root}/proc {root}/dev",
                 f"touch {root}/zabra {root}/etc/hosts",
                 f"printf 'hosts: files\\n' >{root}/etc/nsswitch.conf",
                 f"printf 'multi on\\n' >{root}/etc/host.conf",
                 f"mount --bind {self.outside} {root}/zabra"]
        for name in SYSTEM:
            path = pathlib.Path("/") / name
            if path.is_symlink():
                lines.append(f"ln -s {os.readlink(path)} {root}/{name}")
            elif path.is_dir():
                lines += [f"mkdir {root}/{name}", f"mount --bind /{name} {root}/{name}"]
        return lines

    def scale(self, count):
        """Starts the pods that are missing, all at once."""
        while len(self.pods) < count:
            ordinal = len(self.pods)
            pod = Pod(self, f"zabra-{ordinal}", self.spec, ordinal)
            self.pods.append(pod)
            pod.start()

    def shrink(self, count):
        """Ends the pods with the highest ordinals."""
        while len(self.pods) > count:
            pod = self.pods.pop()
            pod.kill()
            self.unpublish(pod)

    def delete_claim(self, name):
        shutil.rmtree(self.folder / "claims" / name)

    def run_job(self, name, spec, seconds=120):
        """Runs the pod of a job to its end; the exit code and what it said."""
        pod = Pod(self, name, spec)
        pod.start()
        try:
            code = pod.process.wait(seconds)
        finally:
            pod.kill()
        text = pod.log.read_text(errors="replace")
        pod.log.unlink()
        return code, text

    # ---- Name service. ----

    def publish(self, *pods):
        """The pods have names from now on."""
        self.published |= {pod.ordinal for pod in pods}
        self.write_names()

    def unpublish(self, pod):
        self.published.discard(pod.ordinal)
        self.write_names()

    def write_names(self):
        """Writes into the file itself, which is mounted in the pods."""
        lines = ["127.0.0.1 localhost"]
        for pod in self.pods:
            if pod.ordinal in self.published:
                domain = f"zabra-peers.{NAMESPACE}.svc"
                lines.append(f"{pod.ip} {pod.name}.{domain} {domain} {pod.name}")
                lines.append(f"{pod.ip} zabra")
        text = ("\n".join(lines) + "\n").encode()
        fd = os.open(self.names, os.O_WRONLY)
        try:
            os.pwrite(fd, text, 0)
            os.ftruncate(fd, len(text))
        finally:
            os.close(fd)

    # ---- Clients. ----

    def call(self, pod, method, path, body=None, *, host=None, port=9998, timeout=5):
        """A request to one pod; unless `host` is given, under the name of the service."""
        secure = self.tls is not None and port == 9998
        kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        more = {"context": self.tls} if secure else {}
        host = host or f"zabra.{NAMESPACE}.svc:{port}"
        connection = kind(pod.ip, port, timeout=timeout, **more)
        try:
            connection.request(method, path, body, {"Host": host})
            answer = connection.getresponse()
            return Reply(answer.status, answer.read().decode(errors="replace"))
        except (OSError, http.client.HTTPException) as error:
            return Reply(0, str(error))
        finally:
            connection.close()

    def write(self, name, text, seconds=30):
        """A client that retries at another pod until it has an answer."""
        end = time.monotonic() + seconds
        turn = 0
        reply = Reply(0, "")
        while time.monotonic() < end:
            pod = self.pods[turn % len(self.pods)]
            reply = self.call(pod, "PUT", f"/znodes/v1/{name}?upsert=true", text)
            if reply.status in (200, 201):
                return
            turn += 1
            time.sleep(0.05)
        raise Failed(f"{name} was not written: {reply.status} {reply.text}")

    def wait_ready(self, *pods, seconds=60):
        for pod in pods or self.pods:
            try:
                wait(f"{pod.name} is ready", pod.is_ready, seconds)
            except Failed as failed:
                raise Failed(f"{failed}: {pod.probe('readiness').text}") from failed

    def close(self):
        for pod in self.pods:
            pod.kill()


@contextlib.contextmanager
def network():
    """A network of this process, with a bridge for the pods."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET):
        raise Failed(f"no network of its own: {os.strerror(ctypes.get_errno())}")
    run("ip", "link", "set", "lo", "up")
    run("ip", "link", "add", BRIDGE, "type", "bridge")
    run("ip", "address", "add", f"{NETWORK}1/24", "dev", BRIDGE)
    run("ip", "link", "set", BRIDGE, "up")
    yield
