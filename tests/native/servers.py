"""Three servers on free ports of loopback: replicas of zabra, or a real ZooKeeper ensemble.

Clients in any language end one by a line to the control port: `kill PORT` answers `ok` after a
SIGKILL of the server with this client port, which starts again by itself after RESTART_S. After
`stop PORT` it stays down until `start PORT`, which answers when it serves.
"""

import math
import os
import pathlib
import signal
import socket
import socketserver
import ssl
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "recipes"))
from ensemble import free_base  # noqa: E402

SERVERS = 3
PEERS_AT = 1000  # As in ensemble.py, which claims the ports.
START_S = 120
END_S = 20
RESTART_S = 0.5
RESTART_NOW = 0.1  # On the clock since the machine has started: long ago.
RESTART_SLOW_S = 1
POLL_S = 0.05
ASK_S = 5
TICK_MS = 1000   # Timeouts of sessions at ZooKeeper: 2 to 20 s; zabra's bounds include them.
JAVA_CLASSES = "/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar"
JAVA_FLAGS = ["-Xmx160m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
              "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]


def ask(port, word, context=None):
    """The answer to a command word, over TLS with a context; empty without one."""
    try:
        with socket.create_connection(("127.0.0.1", port), ASK_S) as sock:
            if context:
                sock = context.wrap_socket(sock, server_hostname="127.0.0.1")
            sock.sendall(word.encode())
            parts = []
            while part := sock.recv(65536):
                parts.append(part)
        return b"".join(parts).decode(errors="replace")
    except OSError:
        return ""


class Servers:
    """Owns the processes, their directory, the claims on ports and the control port."""

    tls = None      # The directory of certificates, if clients must use TLS.
    context = None

    def __init__(self, data):
        self.data = pathlib.Path(data)
        self.base, self.claims = free_base()
        self.ports = [self.base + n for n in range(SERVERS)]
        self.addresses = ",".join(f"127.0.0.1:{port}" for port in self.ports)
        self.logs = [open(self.data / f"{n + 1}.log", "ab") for n in range(SERVERS)]
        self.children = [None] * SERVERS
        self.due = [0.0] * SERVERS
        self.lock = threading.Lock()
        self.ending = False
        for n in range(SERVERS):
            self.configure(n)
            self.start(n)
        self.keeper = threading.Thread(target=self.keep, daemon=True)
        self.keeper.start()
        self.control = self.serve_control()
        try:
            self.wait_ready()
        except BaseException:
            self.close()
            raise

    def command(self, n):
        raise NotImplementedError

    def configure(self, n):
        raise NotImplementedError

    def start(self, n):
        self.children[n] = subprocess.Popen(self.command(n), stdout=self.logs[n],
                                            stderr=self.logs[n], stdin=subprocess.DEVNULL)

    def keep(self):
        """Starts what was killed, when it is due."""
        while not self.ending:
            with self.lock:
                for n, child in enumerate(self.children):
                    if child.poll() is None:
                        continue
                    if not self.due[n]:  # It ended by itself: that is for the log.
                        self.logs[n].write(f"ended with {child.returncode}\n".encode())
                        self.logs[n].flush()
                        self.due[n] = time.monotonic() + RESTART_SLOW_S
                    elif time.monotonic() > self.due[n] and not self.ending:
                        self.due[n] = 0.0
                        self.start(n)
            time.sleep(POLL_S)

    def kill(self, port):
        n = self.ports.index(port)
        with self.lock:
            self.due[n] = time.monotonic() + RESTART_S
            self.children[n].send_signal(signal.SIGKILL)
            self.children[n].wait()

    def stop(self, port):
        n = self.ports.index(port)
        with self.lock:
            self.due[n] = math.inf
            self.children[n].terminate()
            self.children[n].wait(END_S)

    def resume(self, port):
        with self.lock:
            self.due[self.ports.index(port)] = RESTART_NOW
        self.wait_ready()

    def serve_control(self):
        servers = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self):
                word, port = self.rfile.readline().decode().split()
                {"kill": servers.kill, "stop": servers.stop, "start": servers.resume}[word](int(port))
                self.wfile.write(b"ok\n")

        server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server

    @property
    def control_port(self):
        return self.control.server_address[1]

    def wait_ready(self):
        end = time.monotonic() + START_S
        for port in self.ports:
            while "Mode: " not in ask(port, "srvr", self.context):
                if time.monotonic() > end:
                    raise AssertionError(f"the server at {port} does not serve:\n{self.tail()}")
                time.sleep(POLL_S)

    def tail(self, count=2000):
        return "".join(f"--- {path.name}\n{path.read_text(errors='replace')[-count:]}\n"
                       for path in sorted(self.data.glob("*.log")))

    def complaints(self):
        """What the servers' logs say of ends without a kill, and of sanitizers."""
        found = []
        for path in sorted(self.data.glob("?.log")):
            for line in path.read_text(errors="replace").splitlines():
                if "ended with" in line or "Sanitizer" in line or "assertion" in line:
                    found.append(f"{path.name}: {line}")
        return found

    def close(self):
        self.ending = True
        self.keeper.join()
        for child in self.children:
            if child.poll() is None:
                child.terminate()
        for child in self.children:
            try:
                child.wait(END_S)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        self.control.shutdown()
        self.control.server_close()
        for held in [*self.logs, *self.claims]:
            held.close()


class Zabra(Servers):
    name = "zabra"

    def __init__(self, data, binary, keys=()):
        self.binary = str(pathlib.Path(binary).resolve())
        self.keys = keys
        super().__init__(data)

    def configure(self, n):
        lines = [f"id={n + 1}", f"dataDir={self.data}/{n + 1}", f"clientPort={self.ports[n]}",
                 "clientAddress=127.0.0.1", f"advertiseClient=127.0.0.1:{self.ports[n]}",
                 "drainTimeout=2000", *self.keys]
        lines += [f"server.{i + 1}=127.0.0.1:{port + PEERS_AT}" for i, port in enumerate(self.ports)]
        (self.data / f"{n + 1}.cfg").write_text("\n".join(lines) + "\n")

    def command(self, n):
        return [self.binary, "serve", "--config", f"{self.data}/{n + 1}.cfg"]


class SecureZabra(Zabra):
    """Clients must use TLS, and may have certificates. The certificate of the client is bob.pem."""
    name = "zabra over TLS"

    def __init__(self, data, binary):
        self.tls = pathlib.Path(data) / "tls"
        for what in (["ca"], ["server", "--name=zk", "--san=localhost,127.0.0.1"],
                     ["client", "--name=bob"]):
            subprocess.run([binary, "cert", what[0], f"--dir={self.tls}", *what[1:]], check=True,
                           stdout=subprocess.DEVNULL, timeout=ASK_S)
        self.context = ssl.create_default_context(cafile=self.tls / "ca.pem")
        super().__init__(data, binary, [
            "clientTls=required", f"tlsCertFile={self.tls}/zk.pem", f"tlsKeyFile={self.tls}/zk.key",
            "clientCertificates=ask", f"clientCaFile={self.tls}/ca.pem"])


class ZooKeeper(Servers):
    """Debian's package `zookeeper`: version 3.8.0."""
    name = "zookeeper"

    def configure(self, n):
        home = self.data / str(n + 1)
        home.mkdir()
        (home / "myid").write_text(f"{n + 1}\n")
        lines = [f"tickTime={TICK_MS}", "initLimit=10", "syncLimit=5", f"dataDir={home}",
                 f"clientPort={self.ports[n]}", "clientPortAddress=127.0.0.1",
                 "admin.enableServer=false", "4lw.commands.whitelist=*", "maxClientCnxns=0",
                 "extendedTypesEnabled=true", "enforceQuota=true"]
        # Elections at 500 above the client ports: ensemble.py claims none there, and they are few.
        lines += [f"server.{i + 1}=127.0.0.1:{port + PEERS_AT}:{port + PEERS_AT // 2}"
                  for i, port in enumerate(self.ports)]
        (self.data / f"{n + 1}.cfg").write_text("\n".join(lines) + "\n")

    def command(self, n):
        return ["java", *JAVA_FLAGS, "-cp", JAVA_CLASSES,
                "-Dzookeeper.extendedTypesEnabled=true", "-Dzookeeper.enforceQuota=true",
                "org.apache.zookeeper.server.quorum.QuorumPeerMain", f"{self.data}/{n + 1}.cfg"]


def make(name, data, binary=None):
    """`name`: "zookeeper", or "zabra" or "tls" with a binary."""
    if name == "zookeeper":
        return ZooKeeper(data)
    return SecureZabra(data, binary) if name == "tls" else Zabra(data, binary)


def environment(servers):
    """What programs of checks find the servers by."""
    return {**os.environ, "SERVERS": servers.addresses, "CONTROL": str(servers.control_port),
            "SERVER_KIND": servers.name}
