"""zabra migrate from a real ZooKeeper, which clients write to meanwhile. See README.md."""

import base64
import hashlib
import json
import os
import pathlib
import signal
import socket
import socketserver
import struct
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
IDLE_S = 2
ADD_WATCH = 106
UNIMPLEMENTED = -6


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
    """One server, with a plain port and one for TLS, which demands a certificate."""

    def __init__(self, binary, folder):
        self.folder = folder
        self.port = free_port()
        self.secure_port = free_port()
        self.tls = folder / "tls"
        for what in (["ca"], ["server", "--name=zk", "--san=localhost,127.0.0.1"],
                     ["client", "--name=migrate"]):
            subprocess.run([binary, "cert", what[0], f"--dir={self.tls}", *what[1:]], check=True,
                           stdout=subprocess.DEVNULL, timeout=START_S)
        pair = self.tls / "pair.pem"
        pair.write_text((self.tls / "zk.key").read_text() + (self.tls / "zk.pem").read_text())
        data = folder / "zookeeper"
        data.mkdir()
        (folder / "zoo.cfg").write_text(
            f"dataDir={data}\nclientPort={self.port}\nclientPortAddress=127.0.0.1\n"
            f"secureClientPort={self.secure_port}\nsecureClientPortAddress=127.0.0.1\n"
            "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\n"
            f"ssl.keyStore.location={pair}\nssl.keyStore.type=PEM\n"
            f"ssl.trustStore.location={self.tls}/ca.pem\nssl.trustStore.type=PEM\n"
            "tickTime=2000\nmaxClientCnxns=0\nadmin.enableServer=false\n"
            "extendedTypesEnabled=true\n")
        self.process = None
        self.start()

    def start(self):
        with open(self.folder / "zookeeper.log", "ab") as log:
            self.process = subprocess.Popen(
                ["java", "-Xmx512m", "-Dzookeeper.extendedTypesEnabled=true",
                 f"-Dzookeeper.DigestAuthenticationProvider.superDigest=super:{digest(SUPER)}",
                 "-cp", "/etc/zookeeper/conf:/usr/share/java/zookeeper.jar:/usr/share/java/*",
                 "org.apache.zookeeper.server.quorum.QuorumPeerMain",
                 str(self.folder / "zoo.cfg")], stdout=log, stderr=subprocess.STDOUT)
        wait(lambda: serves(self.port) and serves(self.secure_port), "ZooKeeper serves")

    def kill(self):
        self.process.kill()
        self.process.wait()

    def over_tls(self, certificate=True):
        """The options of a migration by the port for TLS."""
        pair = [f"--from-cert={self.tls}/migrate.pem", f"--from-key={self.tls}/migrate.key"]
        return [f"--from=127.0.0.1:{self.secure_port}", f"--from-ca={self.tls}/ca.pem",
                *(pair if certificate else [])]

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
    assert report["onlyInTarget"] == 1 and report["extra"] == ["/own"], report
    assert not report["verified"] and "/own" in zabra.tree(), report
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


def watched(zabra, source, *args):
    """A migration that follows changes: the process, and the file of its messages."""
    errors = zabra.log.with_suffix(".migrate")
    with open(errors, "wb") as sink:
        command = zabra.command(*source, f"--auth=digest:{SUPER}", "--watch", *args)
        process = subprocess.Popen([*command[:-1], "text"],  # With json it says nothing meanwhile.
                                   env=zabra.env, stdout=subprocess.PIPE, stderr=sink)
    wait(lambda: process.poll() is not None or b"following changes" in errors.read_bytes(),
         "the copy is made", RUN_S)
    assert process.poll() is None, (process.stdout.read(), errors.read_text())
    return process, errors


def ended(process, errors):
    """It has followed changes, and says that both sides are equal."""
    output, _ = process.communicate(timeout=RUN_S)
    facts = dict(line.rsplit(None, 1) for line in output.decode().splitlines() if " " in line)
    assert process.returncode == 0, (process.returncode, output, errors.read_text())
    assert facts["verified"] == "yes" and int(facts["changes followed"]) > 0, output


def arrives(process, zabra, path, data):
    wait(lambda: process.poll() is not None or
         zabra.tree().get(path, (None,))[0] == data, f"{path} arrives")
    assert process.poll() is None


def check_tls(zookeeper, client, zabra):
    """Over TLS, until the source is idle."""
    code, _, done = zabra.migrate(*zookeeper.over_tls(certificate=False), "--dry-run",
                                  f"--auth=digest:{SUPER}")
    assert code == 6 and b"--from-cert" in done.stdout, done
    code, _, done = zabra.migrate(f"--from=127.0.0.1:{zookeeper.port}",
                                  f"--from-ca={zookeeper.tls}/ca.pem", "--dry-run")
    assert code == 6 and b"TLS: " in done.stdout, done
    process, errors = watched(zabra, zookeeper.over_tls(), f"--until-idle={IDLE_S}s")
    began = time.monotonic()
    for n in range(20):  # It is not idle meanwhile.
        client.set("/app", b"idle %d" % n)
        time.sleep(IDLE_S / 8)
        assert process.poll() is None, (process.stdout.read(), errors.read_text())
    ended(process, errors)
    assert time.monotonic() - began > IDLE_S * 20 / 8
    compare(source_tree(client), zabra.tree())
    print("tls: copied, and followed until the source was idle", flush=True)


def check_lost(zookeeper, client, zabra):
    """The source dies and comes back while its changes are followed."""
    process, errors = watched(zabra, [f"--from=127.0.0.1:{zookeeper.port}"])
    for n in range(3):
        client.set("/app", b"before %d" % n)
        arrives(process, zabra, "/app", b"before %d" % n)
        zookeeper.kill()
        zookeeper.start()
        client.retry(client.set, "/app/d0/n1", b"after %d" % n)
        arrives(process, zabra, "/app/d0/n1", b"after %d" % n)
    process.send_signal(signal.SIGINT)
    ended(process, errors)
    assert errors.read_text().count("connecting again") >= 3, errors.read_text()
    compare(source_tree(client), zabra.tree())
    print("lost: followed through three ends of the source", flush=True)


class OldServer(socketserver.ThreadingTCPServer):
    """ZooKeeper 3.5, to a client: its server knows no addWatch, and ends the connection."""
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, port):
        super().__init__(("127.0.0.1", 0), OldConnection)
        self.behind = port
        self.refused = 0
        threading.Thread(target=self.serve_forever, daemon=True).start()


class OldConnection(socketserver.BaseRequestHandler):
    def handle(self):
        with socket.create_connection(("127.0.0.1", self.server.behind)) as behind:
            replies = threading.Thread(target=self.relay, args=(behind,))
            replies.start()
            first = True
            while (frame := self.frame()) is not None:
                if not first and struct.unpack_from(">i", frame, 4)[0] == ADD_WATCH:
                    self.server.refused += 1
                    self.request.sendall(struct.pack(">i", 16) + frame[:4] +
                                         struct.pack(">qi", -1, UNIMPLEMENTED))
                    break
                behind.sendall(struct.pack(">i", len(frame)) + frame)
                first = False
            behind.shutdown(socket.SHUT_RDWR)
            replies.join()

    def relay(self, behind):
        """Bytes of the server. Before addWatch none are on their way: the client waits for them."""
        try:
            while data := behind.recv(65536):
                self.request.sendall(data)
            self.request.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def frame(self):
        head = self.take(4)
        return self.take(struct.unpack(">i", head)[0]) if head else None

    def take(self, count):
        data = b""
        while len(data) < count:
            try:
                part = self.request.recv(count - len(data))
            except OSError:
                return None
            if not part:
                return None
            data += part
        return data


def check_old(zookeeper, client, zabra):
    """A source without recursive watches: each znode has two that are used up."""
    old = OldServer(zookeeper.port)
    process, errors = watched(zabra, [f"--from=127.0.0.1:{old.server_address[1]}"])
    assert b"one-shot watches" in errors.read_bytes() and old.refused > 0
    for n in range(20):
        client.create(f"/app/old-{n}", b"new")
        client.set("/app/d0/n3", b"old %d" % n)
        client.set("/queue", b"old %d" % n)
        if n:
            client.set(f"/app/old-{n - 1}", b"changed")
    client.delete("/app/old-3")
    arrives(process, zabra, "/app/old-18", b"changed")
    arrives(process, zabra, "/queue", b"old 19")
    wait(lambda: "/app/old-3" not in zabra.tree(), "a deleted znode is gone")
    process.send_signal(signal.SIGINT)
    ended(process, errors)
    compare(source_tree(client), zabra.tree())
    old.shutdown()
    old.server_close()
    print("old: followed with one-shot watches", flush=True)


CHECKS = [check_whole, check_prefix, check_tls, check_lost, check_old, check_live]


def main():
    binary, count = sys.argv[1], int(sys.argv[2])
    with tempfile.TemporaryDirectory(prefix="zabra-migrate-") as name:
        folder = pathlib.Path(name)
        processes = []
        zookeeper = None
        try:
            zookeeper = ZooKeeper(binary, folder)
            client = zookeeper.client()
            fill(client, count)
            for check in CHECKS:
                zabra = Zabra(binary, folder, check.__name__)
                processes.append(zabra.process)
                check(zookeeper, client, zabra)
            client.stop()
        finally:
            if zookeeper:
                zookeeper.kill()
            for process in processes:
                process.kill()
                process.wait()
    print("all passed")


if __name__ == "__main__":
    main()
