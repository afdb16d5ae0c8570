"""Clients over TLS: identities by certificates, and what a server that requires TLS refuses."""

import socket
import struct
import time

from kazoo.exceptions import NoAuthError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.security import CREATOR_ALL_ACL, Id

from checks_session import closed, connect
from world import check, equal, expect, receive, tls_keys, wait

START_S = 2
CLOSED_S = 20
PIPELINE_S = 20


@check(fast=True, needs=("tls",))
def certificate_is_an_identity(w):
    path = w.path("owned")
    bob = w.client(**tls_keys("bob"))
    bob.create(path, b"by bob", acl=CREATOR_ALL_ACL)
    equal([acl.id for acl in bob.get_acls(path)[0]], [Id("x509", "CN=bob")])
    w.zk.sync(path)
    expect(NoAuthError, w.zk.get, path)
    again = w.client(**tls_keys("bob"))
    again.sync(path)
    equal(again.get(path)[0], b"by bob")
    again.delete(path)


@check(fast=True, needs=("tls",))
def plain_connections_are_closed(w):
    host, port = w.addresses.split(",")[0].split(":")
    hello = struct.pack(">iiqiqi", 45, 0, 0, 6000, 0, 16) + bytes(17)
    for first in (hello, b"ruok"):
        with socket.create_connection((host, int(port)), CLOSED_S) as sock:
            sock.sendall(first)
            closed(sock)
    plain = w.client(start=False, use_ssl=False)
    try:
        plain.start(START_S)
        raise AssertionError("a client without TLS is connected")
    except KazooTimeoutError:
        pass


@check(fast=True, needs=("tls",))
def one_frame_in_a_record(w):
    """kazoo waits for its socket before each frame, and does not see what the library of TLS holds:
    a second frame in a record would wait for the next ping."""
    sock = connect(w.addresses.split(",")[0])[0]
    exists = struct.pack(">iii", 1, 3, 1) + b"/\0"
    sock.sendall((struct.pack(">i", len(exists)) + exists) * 100)
    for _ in range(100):
        length = struct.unpack(">i", receive(sock, 4))[0]
        equal(sock.pending(), length)
        receive(sock, length)
    sock.sendall(struct.pack(">iii", 8, 2, -11))
    equal(len(receive(sock, 20)), 20)
    sock.close()


@check(fast=True, needs=("tls",))
def pipeline_with_watches(w):
    path = w.path("pipeline")
    w.zk.create(path, b"")
    seen = []
    w.zk.get(path, watch=seen.append)
    began = time.monotonic()
    sets = [w.zk.set_async(path, b"x" * (n % 700)) for n in range(500)]
    reads = [w.zk.get_async(path) for _ in range(500)]
    equal([done.get(PIPELINE_S).version for done in sets], list(range(1, 501)))
    equal({done.get(PIPELINE_S)[1].version for done in reads}, {500})
    assert time.monotonic() - began < PIPELINE_S
    wait(lambda: seen, "the event")
    equal(len(seen), 1)
