"""Three replicas on free ports of loopback, started by `zabra dev` as a user would."""

import http.client
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import time

NODES = 3
PEERS_AT = 1000     # Peer ports lie that far above the client ports.
PORT_FIRST = 12000  # Below the kernel's ports for outgoing connections.
PORT_COUNT = 18000
UNIX_NAME_MAX = 108
START_S = 200
END_S = 60
CALL_S = 60         # Timeout of one answer; the test may retry.
BREATH_S = 0.05
COMPLAINTS = re.compile(r"Sanitizer|runtime error:|assertion failed")


def wait(condition, what, seconds=200):
    """Checks the condition until it holds; returns its value."""
    end = time.monotonic() + seconds
    while True:
        held = condition()
        if held:
            return held
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(BREATH_S)


def claim(port):
    """A socket that claims the port against programs with tests/lib/ports.h; None: it is taken."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.bind(f"\0zabra-test-port-{port}".ljust(UNIX_NAME_MAX, "\0"))
    except OSError:
        sock.close()
        return None
    return sock


def is_free(port):
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_base():
    """The first of NODES client ports, and sockets that claim all ports: a killed replica finds its
    ports free again."""
    for i in range(PORT_COUNT):
        base = PORT_FIRST + (os.getpid() * 97 + i * 10) % PORT_COUNT
        ports = [base + n + peers for n in range(NODES) for peers in (0, PEERS_AT)]
        claims = [claim(port) for port in ports]
        if all(claims) and all(is_free(port) for port in ports):
            return base, claims
        for sock in filter(None, claims):
            sock.close()
    raise AssertionError("no free ports")


class Ensemble:
    def __init__(self, binary, data):
        self.binary = pathlib.Path(binary).resolve()
        self.data = pathlib.Path(data)
        self.base, self.claims = free_base()
        self.servers = [f"127.0.0.1:{self.base + n}" for n in range(NODES)]
        self.output = open(self.data / "dev.log", "wb")
        command = [binary, "dev", f"--port={self.base}", f"--data={data}", "--snapCount=100",
                   "--syncLimit=20"]
        self.dev = subprocess.Popen(command, stdout=self.output, stderr=self.output)
        try:
            wait(self.serves, "all replicas serve", START_S)
        except BaseException:
            self.close()
            raise

    def serves(self):
        if self.dev.poll() is not None:
            raise AssertionError(f"zabra dev has ended with {self.dev.returncode}")
        return all(self.ask(n, "GET", "/readyz")[0] == 200 for n in range(NODES))

    # --- Calls of the test itself ---

    def ask(self, n, method, url, body=None, headers=None):
        """Returns status and body; status 0 without an answer."""
        connection = http.client.HTTPConnection(self.servers[n], timeout=CALL_S)
        try:
            connection.request(method, url, body, headers or {})
            response = connection.getresponse()
            return response.status, response.read()
        except (OSError, http.client.HTTPException):
            return 0, b""
        finally:
            connection.close()

    def call(self, method, url, body=None, statuses=(200, 201, 204)):
        """Repeats the call until a replica answers with one of the statuses; returns the body."""
        for attempt in range(10000):
            status, text = self.ask(attempt % NODES, method, url, body)
            if status in statuses:
                return text
            if status not in (0, 503):
                raise AssertionError(f"{method} {url}: {status} {text}")
            time.sleep(BREATH_S)
        raise AssertionError(f"{method} {url}: no answer")

    def create(self, path, data=""):
        parent, name = path.rsplit("/", 1)
        query = f"?op=create&name={name}&parents=true"
        self.call("POST", f"/znodes/v1{parent or '/'}{query}", data, (201, 409))

    def children(self, path):
        """Names of the children, by a linearizable read; [] without the znode."""
        url = f"/znodes/v1{path}?view=children&consistency=linearizable"
        return json.loads(self.call("GET", url, statuses=(200, 404))).get("children", [])

    def value(self, path):
        url = f"/znodes/v1{path}?dataformat=utf8&consistency=linearizable"
        return json.loads(self.call("GET", url))["dataUtf8"]

    def values(self, path):
        """Values of all children, in the order of names. They may need several answers."""
        url = f"/znodes/v1{path}?view=children&with=data&dataformat=utf8&consistency=linearizable"
        found = []
        page = {"more": True}
        while page.get("more"):
            after = f"&after={page['after']}" if "after" in page else ""
            page = json.loads(self.call("GET", url + after))
            found += [child["dataUtf8"] for child in page["children"]]
        return found

    # --- Failures ---

    def leader(self):
        """The leader's number, or None."""
        for n in range(NODES):
            status, body = self.ask(n, "GET", "/status/v1")
            if status == 200 and json.loads(body)["role"] == "leader":
                return n
        return None

    def pid(self, n):
        mark = f"{self.data}/{n + 1}.cfg".encode()
        for entry in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                if mark in entry.read_bytes().split(b"\0"):
                    return int(entry.parent.name)
            except OSError:
                continue
        return None

    def leader_pid(self):
        leader = self.leader()
        return None if leader is None else self.pid(leader)

    def kill_leader(self):
        """Sends SIGKILL to the leader. `zabra dev` restarts it."""
        pid = wait(self.leader_pid, "there is a leader")
        os.kill(pid, signal.SIGKILL)

    def signal_all(self, number):
        pids = [wait(lambda n=n: self.pid(n), f"replica {n + 1} runs") for n in range(NODES)]
        for pid in pids:
            os.kill(pid, number)

    # --- The end ---

    def close(self):
        if self.dev.poll() is None:
            self.dev.terminate()
            try:
                self.dev.wait(END_S)
            except subprocess.TimeoutExpired:
                self.dev.kill()
                self.dev.wait()
        self.output.close()
        for sock in self.claims:
            sock.close()

    def complaint(self):
        """A sanitizer's report or a failed assertion in any of the logs."""
        for path in self.data.glob("*.log"):
            text = path.read_text(errors="replace")
            found = COMPLAINTS.search(text)
            if found:
                return f"{path.name}: {text[found.start():found.start() + 3000]}"
        return None
