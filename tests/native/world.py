"""What a check with kazoo works with: clients, a part of the tree of its own, waits, kills."""

import os
import pathlib
import socket
import ssl
import threading
import time

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError

WAIT_S = 20
START_S = 20
TIMEOUT_S = 6.0
POLL_S = 0.02
CONTROL_S = 30

CHECKS = []
TLS = None  # The directory of certificates, when all connections are to use TLS.


def check(fast=False, needs=()):
    """Registers a check. The fast ones run in ./run-tests. `needs` names what servers may lack."""
    def register(function):
        function.fast = fast
        function.needs = needs
        CHECKS.append(function)
        return function
    return register


def wait(condition, what, seconds=WAIT_S):
    end = time.monotonic() + seconds
    while True:
        held = condition()
        if held:
            return held
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(POLL_S)


def expect(error, call, *args, **keys):
    """The call must raise this error of kazoo, not one derived from it."""
    try:
        result = call(*args, **keys)
    except KazooException as raised:
        assert type(raised) is error, f"{type(raised).__name__} instead of {error.__name__}"
        return
    raise AssertionError(f"{result!r} instead of {error.__name__}")


def equal(got, wanted):
    assert got == wanted, f"{got!r} instead of {wanted!r}"


def use_tls(directory):
    """From now on every connection has TLS: ca.pem in the directory signs those of the servers."""
    global TLS
    TLS = pathlib.Path(directory)


def tls_keys(name=None):
    """Keys of KazooClient for TLS, with the certificate of this client."""
    keys = {"use_ssl": True, "ca": str(TLS / "ca.pem")}
    if name:
        keys.update(certfile=str(TLS / f"{name}.pem"), keyfile=str(TLS / f"{name}.key"))
    return keys


def dial(address, seconds=WAIT_S):
    """A connection without kazoo."""
    host, port = address.split(":")
    sock = socket.create_connection((host, int(port)), seconds)
    if not TLS:
        return sock
    return ssl.create_default_context(cafile=TLS / "ca.pem").wrap_socket(sock, server_hostname=host)


def receive(sock, count):
    """So many bytes, or fewer when the server closes the connection."""
    data = b""
    while len(data) < count and (part := sock.recv(count - len(data))):
        data += part
    return data


def serves(address):
    try:
        with dial(address) as sock:
            sock.sendall(b"srvr")
            return b"Mode: " in receive(sock, 65536)
    except OSError:
        return False


class World:
    def __init__(self, addresses, name, control=None, kind=""):
        self.addresses = addresses
        self.control = control
        self.kind = kind
        self.clients = []
        self.threads = []
        self.killed = set()
        self.root = f"/native-{os.getpid()}-{name}"
        self.zk = self.client()

    def client(self, start=True, **keys):
        keys.setdefault("hosts", self.addresses)
        keys.setdefault("timeout", TIMEOUT_S)
        if TLS and "use_ssl" not in keys:
            keys.update(tls_keys())
        client = KazooClient(**keys)
        self.clients.append(client)
        if start:
            client.start(START_S)
        return client

    def path(self, name=""):
        """A path in the part of this check; its parent exists."""
        self.zk.ensure_path(self.root)
        return f"{self.root}/{name}" if name else self.root

    def thread(self, function, *args):
        """A thread whose error is that of the check."""
        worker = Worker(function, args)
        self.threads.append(worker)
        worker.start()
        return worker

    def port(self, client):
        return client._connection._socket.getpeername()[1]  # kazoo tells it nowhere else.

    def kill(self, port):
        """SIGKILL to the server at this port; it starts again by itself."""
        with socket.create_connection(("127.0.0.1", self.control), CONTROL_S) as sock:
            sock.sendall(f"kill {port}\n".encode())
            equal(sock.recv(16), b"ok\n")
        self.killed.add(port)

    def close(self):
        for worker in self.threads:
            worker.join(WAIT_S)
        for port in self.killed:  # The next check finds all servers.
            wait(lambda port=port: serves(f"127.0.0.1:{port}"), f"{port} serves again", START_S * 2)
        for client in self.clients[1:]:
            client.stop()
            client.close()
        try:
            self.zk.delete(self.root, recursive=True)
        except NoNodeError:
            pass
        self.zk.stop()
        self.zk.close()


class Worker(threading.Thread):
    def __init__(self, function, args):
        super().__init__(daemon=True)
        self.function = function
        self.args = args
        self.result = None
        self.error = None

    def run(self):
        try:
            self.result = self.function(*self.args)
        except BaseException as error:  # It is raised where the check waits for the result.
            self.error = error

    def value(self, seconds=WAIT_S):
        self.join(seconds)
        assert not self.is_alive(), f"{self.function.__name__} does not end"
        if self.error:
            raise self.error
        return self.result
