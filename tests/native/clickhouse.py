"""Two ClickHouse servers on free ports of loopback, with directories and configurations of their own.

Neither the service of Debian's package nor its files are used: only its program.
"""

import http.client
import signal
import socket
import subprocess
import sys
import time
import urllib.parse
import pathlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "recipes"))
from ensemble import free_base  # noqa: E402

SERVERS = 2
START_S = 60
ANSWER_S = 60
POLL_S = 0.1
SESSION_MS = 10000

CONFIGURATION = """<yandex>
  <logger><level>information</level><log>{home}/server.log</log>
    <errorlog>{home}/errors.log</errorlog></logger>
  <listen_host>127.0.0.1</listen_host>
  <http_port>{http}</http_port><tcp_port>{tcp}</tcp_port>
  <interserver_http_host>127.0.0.1</interserver_http_host>
  <interserver_http_port>{peers}</interserver_http_port>
  <path>{home}/data/</path><tmp_path>{home}/tmp/</tmp_path>
  <users_config>{home}/users.xml</users_config>
  <default_profile>default</default_profile><default_database>default</default_database>
  <mark_cache_size>67108864</mark_cache_size>
  <zookeeper>{coordinators}<session_timeout_ms>{session}</session_timeout_ms></zookeeper>
  <remote_servers><both><shard>{replicas}</shard></both></remote_servers>
  <distributed_ddl><path>/clickhouse/ddl</path></distributed_ddl>
  <macros><replica>r{number}</replica></macros>
</yandex>
"""
USERS = """<yandex>
  <profiles><default></default></profiles>
  <users><default><password></password><networks><ip>127.0.0.1</ip></networks>
    <profile>default</profile><quota>default</quota></default></users>
  <quotas><default></default></quotas>
</yandex>
"""


class QueryError(Exception):
    """The server refused a query, or the connection to it was lost."""


class ClickHouse:
    """Owns one process, its directory and the claims on its three ports."""

    def __init__(self, program, home, number, ports, coordinators, peers):
        self.program = program
        self.home = pathlib.Path(home)
        self.port = ports[0]
        self.name = f"r{number}"
        self.child = None
        self.home.mkdir()
        nodes = "".join(f'<node index="{n}"><host>{host}</host><port>{port}</port></node>'
                        for n, (host, port) in enumerate(coordinators, 1))
        replicas = "".join(f"<replica><host>127.0.0.1</host><port>{port}</port></replica>"
                           for port in peers)
        (self.home / "users.xml").write_text(USERS)
        (self.home / "config.xml").write_text(CONFIGURATION.format(
            home=self.home, http=ports[0], tcp=ports[1], peers=ports[2], number=number,
            coordinators=nodes, replicas=replicas, session=SESSION_MS))
        self.log = open(self.home / "output.log", "ab")
        self.start()

    def start(self):
        """Call it while the coordinators serve: without them this ClickHouse ends, or its tables
        stay read-only until it starts again."""
        self.child = subprocess.Popen(
            [self.program, f"--config-file={self.home}/config.xml"], cwd=self.home,
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        end = time.monotonic() + START_S
        while True:
            if self.child.poll() is not None:
                raise AssertionError(f"{self.name} ended with {self.child.returncode}:\n{self.tail()}")
            try:
                if self.ask("SELECT 1") == "1":
                    return
            except QueryError:
                pass
            if time.monotonic() > end:
                raise AssertionError(f"{self.name} does not answer:\n{self.tail()}")
            time.sleep(POLL_S)

    def ask(self, query, body=b"", **settings):
        """The answer as text, without the last line end."""
        target = "/?" + urllib.parse.urlencode({"query": query, **settings})
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=ANSWER_S)
        try:
            connection.request("POST", target, body)
            answer = connection.getresponse()
            text = answer.read().decode(errors="replace").strip("\n")
        except (OSError, http.client.HTTPException) as error:
            raise QueryError(f"{self.name}: {error!r}") from error
        finally:
            connection.close()
        if answer.status != 200:
            raise QueryError(f"{self.name}: {text}")
        return text

    def kill(self):
        self.child.send_signal(signal.SIGKILL)
        self.child.wait()

    def tail(self, count=4000):
        return "".join(f"--- {self.name} {path.name}\n{path.read_text(errors='replace')[-count:]}\n"
                       for path in (self.home / "output.log", self.home / "errors.log")
                       if path.exists())

    def close(self):
        if self.child and self.child.poll() is None:
            self.kill()  # An orderly end takes half a minute when sessions were lost.
        self.log.close()


class Pair:
    """Owns both servers and the claims on their ports."""

    def __init__(self, program, data, addresses):
        self.claims = []
        self.servers = []
        bases = []
        for _ in range(SERVERS):
            base, claims = free_base()
            bases.append(base)
            self.claims += claims
        coordinators = [address.split(":") for address in addresses.split(",")]
        try:
            for n, base in enumerate(bases):
                self.servers.append(ClickHouse(
                    program, pathlib.Path(data) / f"r{n + 1}", n + 1, [base, base + 1, base + 2],
                    coordinators, [other + 1 for other in bases]))
        except BaseException:
            self.close()
            raise

    def close(self):
        for server in self.servers:
            server.close()
        for claim in self.claims:
            claim.close()


def ask_control(port, line):
    """One command to the control port of servers.py."""
    with socket.create_connection(("127.0.0.1", port), ANSWER_S) as sock:
        sock.sendall(f"{line}\n".encode())
        return sock.recv(16) == b"ok\n"
