"""zabra migrate from a real ZooKeeper, which clients write to meanwhile. See README.md."""

import base64
import hashlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError, NoNodeError
from kazoo.security import ACL, make_digest_acl

SUPER = "super:top"
BIG = b"\x00\xff\n" * (340 * 1024)
START_S = 60
RUN_S = 600


def digest(text):
    return base64.b64encode(hashlib.sha1(text.encode()).digest()).decode()


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def wait(condition, what, seconds=START_S):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.05)


def serves(port):
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0


class ZooKeeper:
    def __init__(self, folder):
        self.port = free_port()
        data = folder / "zookeeper"
        data.mkdir()
        config = folder / "zoo.cfg"
        config.write_text(f"dataDir={data}\nclientPort={self.port}\n"
                          "clientPortAddress=127.0.0.1\ntickTime=2000\nmaxClientCnxns=0\n"
                          "admin.enableServer=false\nextendedTypesEnabled=true\n")
        self.process = subprocess.Popen(
            ["java", "-Xmx512m", "-Dzookeeper.extendedTypesEnabled=true",
             f"-Dzookeeper.DigestAuthenticationProvider.superDigest=super:{digest(SUPER)}",
             "-cp", "/etc/zookeeper/conf:/usr/share/java/zookeeper.jar:/usr/share/java/*",
             "org.apache.zookeeper.server.quorum.QuorumPeerMain", str(config)],
            stdout=open(folder / "zookeeper.log", "wb"), stderr=subprocess.STDOUT)
        wait(lambda: serves(self.port), "ZooKeeper serves")

    def client(self):
        client = KazooClient(f"127.0.0.1:{self.port}", auth_data=[("digest", SUPER)])
        client.start(timeout=START_S)
        return client


class Zabra:
    def __init__(self, binary, folder, name):
        self.binary = binary
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.password = folder / "password"
        self.password.write_text(SUPER.split(":")[1] + "\n")
        self.password.chmod(0o600)
        self.env = {**os.environ, "ZABRA_ENDPOINTS": f"127.0.0.1:{self.port}"}
        self.log = folder / f"{name}.log"
        self.process = subprocess.Popen(
            [binary, "serve", "--id=1", f"--clientPort={self.port}",
             f"--dataDir={folder / name}",
             f"--superDigest=super:{digest(SUPER)}"],
            stdout=open(self.log, "wb"), stderr=subprocess.STDOUT)
        wait(self.ready, f"zabra serves, see {self.log}")

    def ready(self):
        if self.process.poll() is not None:
            raise AssertionError(self.log.read_text())
        try:
            return self.ask("GET", "/readyz")[0] == 200
        except OSError:
            return False

    def ask(self, method, target, body=None):
        request = urllib.request.Request(self.url + target, body, method=method)
        request.add_header("Authorization",
                           "Basic " + base64.b64encode(SUPER.encode()).decode())
        request.add_header("Content-Type", "application/octet-stream")
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def command(self, *args, user=True):
        login = ["--user", "super", "--password-file", str(self.password)] if user else []
        return [self.binary, "migrate", *args, *login, "-o", "json"]

    def migrate(self, *args, user=True):
        done = subprocess.run(self.command(*args, user=user), env=self.env, timeout=RUN_S,
                              capture_output=True, check=False)
        return done.returncode, last_json(done.stdout), done

    def tree(self):
        """All znodes but ephemerals: path to (data or None, ACL, children ever created)."""
        status, text = self.ask("GET", "/export/v1/?dataformat=base64")
        assert status == 200, text
        found = {}
        for line in text.splitlines():
            znode = json.loads(line)
            if "path" not in znode or "export" in znode:
                continue
            stat = znode["stat"]
            data = None if znode.get("null") else base64.b64decode(znode["data64"])
            acl = znode.get("acl", [{"perms": ["all"], "scheme": "world", "id": "anyone"}])
            found["/" + znode["path"]] = (data, sorted(acl_key(entry) for entry in acl),
                                          (stat["cversion"] + stat["numChildren"]) // 2)
        return found


def last_json(text):
    lines = [line for line in text.decode().splitlines() if line.startswith("{")]
    return json.loads(lines[0]) if lines else None


def acl_key(entry):
    bits = {"read": 1, "write": 2, "create": 4, "delete": 8, "admin": 16, "all": 31}
    return (entry["scheme"], entry["id"], sum(bits[name] for name in set(entry["perms"])))


def source_tree(client, path="/"):
    """The same of ZooKeeper."""
    found = {}
    todo = [path]
    while todo:
        path = todo.pop()
        try:
            data, stat = client.get(path)
            acl, _ = client.get_acls(path)
            children, stat = client.get_children(path, include_data=True)
        except NoNodeError:
            continue
        if stat.ephemeralOwner:
            continue
        keys = sorted((entry.id.scheme, entry.id.id, entry.perms) for entry in acl)
        found[path] = (data, keys, (stat.cversion + stat.numChildren) // 2)
        todo += [f"{path.rstrip('/')}/{name}" for name in children
                 if not (path == "/" and name == "zookeeper")]
    return found


def compare(source, target):
    """Returns how many counts of creates are greater in the target; none may be smaller."""
    assert source.keys() == target.keys(), (sorted(source.keys() ^ target.keys())[:10])
    for path, (data, acl, creates) in source.items():
        theirs = target[path]
        assert data == theirs[0], path
        assert acl == theirs[1], (path, acl, theirs[1])
        assert creates <= theirs[2], (path, creates, theirs[2])
    ahead = sum(target[path][2] > znode[2] for path, znode in source.items())
    return ahead


def fill(client, count):
    """A tree with one of each kind."""
    client.create("/app", b"top")
    for first in range(0, count, 500):
        multi = client.transaction()
        if first % 10000 == 0:
            client.create(f"/app/d{first // 10000}", b"")
        for i in range(first, min(first + 500, count)):
            multi.create(f"/app/d{i // 10000}/n{i}", b"data %d" % i)
        multi.commit()
    client.create("/queue", b"")
    for i in range(50):
        path = client.create("/queue/item-", b"", sequence=True)
        if i % 2:
            client.delete(path)
    client.create("/empty", b"")
    for i in range(7):
        client.delete(client.create("/empty/l-", b"", sequence=True))
    client.create("/big", BIG)
    client.create("/none", None)
    client.create("/acl", b"secret", acl=[make_digest_acl("alice", "pw", all=True),
                                          ACL(1, make_digest_acl("bob", "x").id)])
    client.create("/acl/below", b"", acl=[make_digest_acl("alice", "pw", read=True)])
    client.create("/names/ü ñ €/x y?&#%", b"unicode", makepath=True)
    client.create("/live", b"")
    client.create("/live/e", b"ephemeral", ephemeral=True)


class Writer(threading.Thread):
    """Writes to the source until it is stopped."""

    def __init__(self, client):
        super().__init__()
        self.client = client
        self.ends = threading.Event()
        self.count = 0
        self.start()

    def run(self):
        i = 0
        while not self.ends.is_set():
            i += 1
            step = i % 9
            if step < 4:
                self.client.create("/queue/live-", b"%d" % i, sequence=True)
            elif step == 4:
                self.client.set(f"/app/d0/n{i % 100}", b"changed %d" % i)
            elif step == 5:
                names = self.client.get_children("/queue")
                self.client.delete(f"/queue/{min(names)}")
            elif step == 6:
                self.client.ensure_path(f"/deep/{i % 5}/a/b/c")
            elif step == 7:
                self.client.delete(f"/deep/{(i + 2) % 5}", recursive=True) \
                    if self.client.exists(f"/deep/{(i + 2) % 5}") else None
            else:
                self.client.set_acls(f"/app/d0/n{i % 100}",
                                     [make_digest_acl("carol", str(i % 3), all=True)])
            self.count += 1

    def stop(self):
        self.ends.set()
        self.join()


def check_whole(zookeeper, client, zabra):
    """Everything at rest, twice; a dry run, and what is refused."""
    source = f"--from=127.0.0.1:{zookeeper.port}"
    auth = f"--auth=digest:{SUPER}"
    code, report, done = zabra.migrate(source, auth, "--dry-run")
    assert code == 0 and report["created"] > 100 and len(zabra.tree()) == 1, done
    began = time.monotonic()
    code, report, done = zabra.migrate(source, auth, "--container=/queue", "--ttl=/none=3600000")
    seconds = time.monotonic() - began
    assert code == 0 and report["verified"] and report["ephemerals"] == 1, done
    assert report["containers"] == 1 and report["ttls"] == 1, report
    target = zabra.tree()
    assert compare(source_tree(client), target) == 0
    assert target["/none"][0] is None and target["/empty"][0] == b""
    status, answer = zabra.ask("POST", "/znodes/v1/empty?op=create&name=l-&sequence=true")
    assert status == 201 and json.loads(answer)["path"] == "/empty/l-0000000007", answer
    zabra.ask("DELETE", "/znodes/v1/empty/l-0000000007")
    print(f"whole tree: {report['znodes']} znodes in {seconds:.1f} s, verified", flush=True)

    code, report, done = zabra.migrate(source, auth)
    assert code == 4 and b"--into" in done.stdout, done
    zabra.ask("POST", "/znodes/v1/?op=create&name=own", b"x")
    code, report, done = zabra.migrate(source, auth, "--into")
    assert code == 0 and report["created"] == report["changed"] == 0, done
    assert report["onlyInTarget"] == 1 and "/own" in zabra.tree()
    code, report, done = zabra.migrate(source, auth, "--replace")
    assert code == 0 and report["deleted"] == 1 and "/own" not in zabra.tree(), done
    code, report, done = zabra.migrate(source, auth, "--into", user=False)
    assert code == 5, done
    code, report, done = zabra.migrate(source, "--into")
    assert code == 9 and report["refused"] >= 1, done
    assert any(one["path"] == "/acl" for one in report["notCopied"]), report
    code, report, done = zabra.migrate("--from=127.0.0.1:1", auth, "--into")
    assert code == 6 and b"no ZooKeeper serves" in done.stdout, done


def check_prefix(zookeeper, client, zabra):
    code, report, done = zabra.migrate(f"--from=127.0.0.1:{zookeeper.port}/names",
                                       f"--auth=digest:{SUPER}", "--into")
    assert code == 0 and report["znodes"] == 3, done
    assert "/ü ñ €" in zabra.tree()
    zabra.ask("DELETE", "/znodes/v1/" + urllib.parse.quote("ü ñ €") + "?recursive=true")
    code, report, done = zabra.migrate(f"--from=127.0.0.1:{zookeeper.port}", "--prefix=/app/",
                                       f"--auth=digest:{SUPER}", "--into")
    assert code == 0 and report["znodes"] > 1000 and "/app/d0/n7" in zabra.tree(), done
    print("prefix: copied", flush=True)


def check_live(zookeeper, client, zabra):
    """Writers while zabra migrates; Ctrl-C after they have ended."""
    writer = Writer(zookeeper.client())
    command = zabra.command(f"--from=127.0.0.1:{zookeeper.port}", f"--auth=digest:{SUPER}",
                            "--watch")
    errors = zabra.log.with_suffix(".migrate")
    with open(errors, "wb") as sink:
        process = subprocess.Popen(command, env=zabra.env, stdout=subprocess.PIPE, stderr=sink)
        seen = "/app/d0"
        wait(lambda: process.poll() is not None or zabra.ask("GET", f"/znodes/v1{seen}")[0] == 200,
             "the copy has begun", RUN_S)
        time_left = writer.count + 2000
        wait(lambda: writer.count > time_left or process.poll() is not None, "2000 writes", RUN_S)
        writer.stop()
        client.create("/last", b"marker")
        wait(lambda: process.poll() is not None or
             zabra.ask("GET", "/znodes/v1/last")[0] == 200, "the last write has arrived", RUN_S)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=RUN_S)
    report = last_json(output)
    assert process.returncode == 0, (process.returncode, output, errors.read_text())
    assert report["verified"] and report["events"] > 0, report
    ahead = compare(source_tree(client), zabra.tree())
    print(f"live: {writer.count} writes, {report['events']} changes followed, verified; "
          f"{ahead} counters ahead", flush=True)


def main():
    binary, count = sys.argv[1], int(sys.argv[2])
    with tempfile.TemporaryDirectory(prefix="zabra-migrate-") as name:
        folder = pathlib.Path(name)
        processes = []
        try:
            zookeeper = ZooKeeper(folder)
            processes.append(zookeeper.process)
            client = zookeeper.client()
            fill(client, count)
            for check in (check_whole, check_prefix, check_live):
                zabra = Zabra(binary, folder, check.__name__)
                processes.append(zabra.process)
                check(zookeeper, client, zabra)
            client.stop()
        finally:
            for process in processes:
                process.kill()
                process.wait()
    print("all passed")


if __name__ == "__main__":
    main()
