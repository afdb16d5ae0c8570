"""ZooKeeper's encoding, and a connection with raw frames. Only the standard library."""

import socket
import struct

WAIT_S = 10


def integer(value):
    return struct.pack(">i", value)


def long(value):
    return struct.pack(">q", value)


def boolean(value):
    return bytes([value])


def text(value):
    """A ustring or a buffer; None is null."""
    if value is None:
        return integer(-1)
    raw = value.encode() if isinstance(value, str) else value
    return integer(len(raw)) + raw


def vector(items):
    return integer(-1) if items is None else integer(len(items)) + b"".join(items)


def acl(perms, scheme, name):
    return integer(perms) + text(scheme) + text(name)


OPEN = vector([acl(31, "world", "anyone")])


def frame(body):
    return integer(len(body)) + body


def connect(timeout_ms=30000, session=0, passwd=bytes(16), last_zxid=0, tail=b"\0"):
    return (integer(0) + long(last_zxid) + integer(timeout_ms) + long(session) + text(passwd) +
            tail)


class Connection:
    """A socket that sends and receives whole frames."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), WAIT_S)
        self.socket.settimeout(WAIT_S)

    def close(self):
        self.socket.close()

    def send(self, raw):
        self.socket.sendall(raw)

    def _take(self, count):
        raw = b""
        while len(raw) < count:
            piece = self.socket.recv(count - len(raw))
            if not piece:
                return None
            raw += piece
        return raw

    def receive(self):
        """One frame with its length; None when the server has closed the connection."""
        try:
            head = self._take(4)
            body = self._take(struct.unpack(">i", head)[0]) if head else None
        except ConnectionError:
            return None
        return head + body if body is not None else None
