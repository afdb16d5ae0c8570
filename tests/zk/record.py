#!/usr/bin/env python3
"""record.py [--write]: frames of a real ZooKeeper, for tests/unit/test_zk_golden.c.

Sends requests of each type to a server with an empty tree, and compares what it answers with
tests/unit/zk_golden.inc; with --write it writes the file. What differs from run to run is replaced:
the session's id and password, and times.
"""

import difflib
import pathlib
import re
import sys
import time

from jute import (OPEN, Connection, acl, boolean, connect, frame, integer, long, text, vector)
from server import Server, digest

FILE = pathlib.Path(__file__).resolve().parents[1] / "unit" / "zk_golden.inc"
SESSION = bytes.fromhex("0100000000000007")
PASSWD = bytes(range(0x10, 0x20))
TIME = bytes.fromhex("000001a200000000")

CREATE, DELETE, EXISTS, GET, SET, GET_ACL, SET_ACL, CHILDREN, SYNC = range(1, 10)
PING, CHILDREN2, CHECK, MULTI, CREATE2, RECONFIG, CHECK_WATCHES, REMOVE_WATCHES = range(11, 19)
CONTAINER, DELETE_CONTAINER, TTL, MULTI_READ = range(19, 23)
AUTH, SET_WATCHES, SASL, EPHEMERALS, COUNT, SET_WATCHES2, ADD_WATCH, WHOAMI = range(100, 108)
CLOSE = -11

PAUL = digest("paul", "pw")


def made(path, data="d", rights=OPEN, flags=0):
    return text(path) + text(data) + rights + integer(flags)


def part(kind, record=b"", done=0):
    return integer(kind) + boolean(done) + integer(-1) + record


END = part(-1, done=1)


class Recorder:
    def __init__(self, port):
        self.port = port
        self.rows = []
        self.masks = []  # (bytes as they came, bytes as they are written)
        self.connection = None
        self.xid = 0
        self.start_ms = int(time.time() * 1000) - 60000

    def _mask(self, raw):
        kept = 0 if raw[4:8] == bytes(4) else 16  # Numbers in a header may look like a session's id.
        for real, shown in self.masks:
            raw = raw[:kept] + raw[kept:].replace(real, shown)
        spot = 0
        while spot + 8 <= len(raw):  # Times have no fixed place.
            value = int.from_bytes(raw[spot:spot + 8], "big")
            if self.start_ms <= value <= self.start_ms + 3600000:
                raw = raw[:spot] + TIME + raw[spot + 8:]
                spot += 7
            spot += 1
        return raw

    def _add(self, name, request, reply):
        closed = reply is None
        row = (name, self._mask(request).hex(), "" if closed else self._mask(reply).hex())
        self.rows.append(row)

    def hello(self, name, body):
        """A connection of its own; what it gets is recorded."""
        self.connection = Connection(self.port)
        self.connection.send(frame(body))
        reply = self.connection.receive()
        if reply and reply[8:12] != bytes(4) and len(self.masks) == 0:
            self.masks = [(reply[12:20], SESSION), (reply[24:40], PASSWD)]
        elif reply and reply[8:12] != bytes(4) and not reply[12:20] == self.masks[0][0]:
            self.masks += [(reply[12:20], SESSION), (reply[24:40], PASSWD)]
        self._add(name, frame(body), reply)

    def take_over(self, name):
        session, passwd = self.masks[0][0], self.masks[1][0]
        self.hello(name, connect(session=int.from_bytes(session, "big"), passwd=passwd))

    def op(self, name, kind, body=b"", xid=None, events=()):
        """Sends a request; `events` are the names of the notifications that precede its reply."""
        self.xid += 1
        request = frame(integer(self.xid if xid is None else xid) + integer(kind) + body)
        self.connection.send(request)
        for event in events:
            self._add(event, b"", self.connection.receive())
        reply = self.connection.receive()
        assert reply is None or reply[4:8] == request[4:8], (name, reply)
        self._add(name, request, reply)

    def closed(self, name):
        """The server has closed the connection."""
        reply = self.connection.receive()
        assert reply is None, (name, reply)
        self._add(name, b"", None)

    def fresh(self):
        """Another connection, whose opening is not recorded."""
        self.connection.close()
        self.connection = Connection(self.port)
        self.connection.send(frame(connect()))
        self.connection.receive()
        self.xid = 0


def record_basics(rec):
    rec.hello("connect", connect())
    rec.op("create", CREATE, made("/a"))
    rec.op("create_null", CREATE, made("/null", None))
    rec.op("create_empty", CREATE, made("/empty", ""))
    rec.op("create_ephemeral", CREATE, made("/e", flags=1))
    rec.op("create_sequence", CREATE, made("/a/s-", flags=2))
    rec.op("create_sequence_no_name", CREATE, made("/a/", flags=2))
    rec.op("create_both", CREATE, made("/a/t-", flags=3))
    rec.op("create2", CREATE2, made("/b"))
    rec.op("create2_ephemeral", CREATE2, made("/e2", flags=1))
    rec.op("create2_sequence", CREATE2, made("/a/u-", flags=2))
    rec.op("create_container", CONTAINER, made("/c", flags=4))
    rec.op("create_ttl", TTL, made("/ttl", flags=5) + long(3600000))
    rec.op("create_ttl_sequence", TTL, made("/ttl-", flags=6) + long((1 << 40) - 1))
    rec.op("create_exists", CREATE, made("/a"))
    rec.op("create_no_parent", CREATE, made("/nope/x"))
    rec.op("create_below_ephemeral", CREATE, made("/e/x"))
    rec.op("exists", EXISTS, text("/a") + boolean(0))
    rec.op("exists_ephemeral", EXISTS, text("/e") + boolean(0))
    rec.op("exists_container", EXISTS, text("/c") + boolean(0))
    rec.op("exists_missing", EXISTS, text("/x") + boolean(0))
    rec.op("get", GET, text("/a") + boolean(0))
    rec.op("get_null", GET, text("/null") + boolean(0))
    rec.op("get_empty", GET, text("/empty") + boolean(0))
    rec.op("get_missing", GET, text("/x") + boolean(0))
    rec.op("set", SET, text("/a") + text("new") + integer(-1))
    rec.op("set_null", SET, text("/b") + text(None) + integer(0))
    rec.op("set_bad_version", SET, text("/a") + text("new") + integer(7))
    rec.op("get_acl", GET_ACL, text("/a"))
    rec.op("set_acl", SET_ACL, text("/b") + vector([acl(31, "world", "anyone"),
                                                    acl(3, "digest", PAUL),
                                                    acl(1, "ip", "10.0.0.0/8")]) + integer(0))
    rec.op("get_acl_three", GET_ACL, text("/b"))
    rec.op("children", CHILDREN, text("/a") + boolean(0))
    rec.op("children_none", CHILDREN, text("/b") + boolean(0))
    rec.op("children2", CHILDREN2, text("/a") + boolean(0))
    rec.op("sync", SYNC, text("/a"))
    rec.op("sync_null", SYNC, text(None))
    rec.op("ping", PING, xid=-2)
    rec.op("delete_not_empty", DELETE, text("/a") + integer(-1))
    rec.op("delete_bad_version", DELETE, text("/b") + integer(9))
    rec.op("delete", DELETE, text("/b") + integer(1))
    rec.op("ephemerals", EPHEMERALS, text("/"))
    rec.op("ephemerals_null", EPHEMERALS, text(None))
    rec.op("ephemerals_none", EPHEMERALS, text("/none"))
    rec.op("count", COUNT, text("/a"))
    rec.op("identities", WHOAMI)
    rec.op("reconfig", RECONFIG, text("") * 3 + long(-1))
    rec.op("sasl", SASL, text("token"))


def record_watches(rec):
    rec.op("get_watch", GET, text("/a") + boolean(1))
    rec.op("set_watched", SET, text("/a") + text("x") + integer(-1), events=["event_changed"])
    rec.op("exists_watch", EXISTS, text("/new") + boolean(1))
    rec.op("create_watched", CREATE, made("/new"), events=["event_created"])
    rec.op("children_watch", CHILDREN, text("/new") + boolean(1))
    rec.op("create_child_watched", CREATE, made("/new/x"), events=["event_children"])
    rec.op("get_watch_again", GET, text("/new/x") + boolean(1))
    rec.op("delete_watched", DELETE, text("/new/x") + integer(-1), events=["event_deleted"])
    rec.op("add_watch", ADD_WATCH, text("/w") + integer(0))
    rec.op("add_watch_recursive", ADD_WATCH, text("/r") + integer(1))
    rec.op("add_watch_bad_mode", ADD_WATCH, text("/w") + integer(2))
    rec.op("add_watch_illegal", ADD_WATCH, text("a//") + integer(0))
    rec.op("check_watches", CHECK_WATCHES, text("/w") + integer(3))
    rec.op("check_watches_none", CHECK_WATCHES, text("/q") + integer(1))
    rec.op("check_watches_illegal", CHECK_WATCHES, text("/q//") + integer(1))
    rec.op("check_watches_null", CHECK_WATCHES, text(None) + integer(1))
    rec.op("check_watches_bad_mode", CHECK_WATCHES, text("/w") + integer(0))
    rec.op("remove_watches", REMOVE_WATCHES, text("/w") + integer(3))
    rec.op("remove_watches_none", REMOVE_WATCHES, text("/w") + integer(2))
    rec.op("remove_watches_null", REMOVE_WATCHES, text(None) + integer(2))
    rec.op("remove_watches_bad_mode", REMOVE_WATCHES, text("/w") + integer(9))
    rec.op("set_watches", SET_WATCHES, long(1 << 40) + vector([text("/a")]) +
           vector([text("/later"), text("/later2")]) + vector([text("/a")]), xid=-8)
    rec.op("set_watches2", SET_WATCHES2, long(1 << 40) + vector([]) * 3 + vector([text("/a")]) +
           vector([text("/r")]))
    rec.op("set_watches_null_list", SET_WATCHES, long(0) + vector(None) * 3)
    rec.op("set_watches_negative_list", SET_WATCHES, long(0) + integer(-5) * 3)
    rec.op("set_watches_null_path", SET_WATCHES, long(0) + vector([text(None)]) + vector([]) * 2)
    rec.op("set_watches_huge", SET_WATCHES, long(0) + integer(2**31 - 1) + vector([]) * 2)
    rec.op("set_watches2_short", SET_WATCHES2, long(0) + vector([]) * 3)
    rec.op("get_empty_path_watch", GET, text("") + boolean(1))
    rec.op("set_root", SET, text("/") + text("x") + integer(-1))  # No event.
    rec.op("set_watches_empty_path", SET_WATCHES, long(0) + vector([text("")]) * 3,
           events=["event_empty_data", "event_empty_exists", "event_empty_children"])
    rec.op("set_watches_impossible_path", SET_WATCHES, long(1 << 40) +
           vector([text("a"), text("/a//b")]) + vector([text("b")]) + vector([text("/c/")]),
           events=["event_impossible_data", "event_impossible_data2", "event_impossible_children"])


def record_multi(rec):
    rec.op("multi", MULTI, part(CREATE, made("/m1")) + part(CREATE2, made("/m2")) +
           part(CONTAINER, made("/m3", flags=4)) +
           part(TTL, made("/m4", flags=5) + long(3600000)) +
           part(CREATE, made("/m1/s-", flags=2)) +
           part(SET, text("/m2") + text("new") + integer(0)) +
           part(CHECK, text("/m2") + integer(1)) + part(DELETE, text("/m4") + integer(-1)) + END)
    rec.op("multi_container_by_flag", MULTI, part(CREATE, made("/m5", flags=4)) + END)
    rec.op("multi_failed_first", MULTI, part(CHECK, text("/x") + integer(-1)) +
           part(CREATE, made("/m9")) + END)
    rec.op("multi_failed_middle", MULTI, part(CREATE, made("/m9")) +
           part(SET, text("/a") + text("z") + integer(99)) + part(CREATE, made("/m10")) + END)
    rec.op("multi_failed_last", MULTI, part(CREATE, made("/m9")) +
           part(DELETE, text("/a") + integer(-1)) + END)
    rec.op("multi_empty", MULTI, END)
    rec.op("multi_done_first", MULTI, part(CREATE, done=1))
    rec.op("multi_behind_end", MULTI, END + b"more")
    rec.op("multi_read_in_it", MULTI, part(GET, text("/a") + boolean(0)) + END)
    rec.op("multi_set_acl_in_it", MULTI, part(SET_ACL, text("/a") + OPEN + integer(-1)) + END)
    rec.op("multi_close_in_it", MULTI, part(CLOSE) + END)
    rec.op("multi_no_end", MULTI, part(CREATE, made("/m9")))
    rec.op("multi_truncated", MULTI, part(CREATE, made("/m9"))[:20])
    rec.op("multi_nothing", MULTI)
    rec.op("multi_bad_flags", MULTI, part(CREATE, made("/m9", flags=9)) + END)
    rec.op("multi_bad_ttl", MULTI, part(TTL, made("/m9", flags=5) + long(0)) + END)
    rec.op("multi_bad_path", MULTI, part(CHECK, text("/a") + integer(-1)) +
           part(CREATE, made("a")) + part(DELETE, text("/a") + integer(-1)) + END)
    rec.op("multi_bad_acl", MULTI, part(CHECK, text("/a") + integer(-1)) +
           part(CREATE, made("/m9", rights=vector([]))) +
           part(DELETE, text("/a") + integer(-1)) + END)
    rec.op("multi_read", MULTI_READ, part(GET, text("/m2") + boolean(0)) +
           part(CHILDREN, text("/m1") + boolean(0)) + part(GET, text("/x") + boolean(0)) +
           part(GET, text("/null") + boolean(0)) + part(CHILDREN, text("/x") + boolean(0)) + END)
    rec.op("multi_read_illegal", MULTI_READ, part(CHILDREN, text("a//") + boolean(1)) +
           part(GET, text("/a") + boolean(1)) + END)
    rec.op("multi_read_empty", MULTI_READ, END)
    rec.op("multi_read_exists", MULTI_READ, part(EXISTS, text("/a") + boolean(0)) + END)
    rec.op("multi_read_children2", MULTI_READ, part(CHILDREN2, text("/a") + boolean(0)) + END)


def record_refused(rec):
    """What the request alone decides."""
    anyone = acl(31, "world", "anyone")
    for name, rights in [("empty", vector([])), ("null", vector(None)), ("negative", integer(-2)),
                         ("huge", integer(2**31 - 1)), ("short", integer(2) + anyone),
                         ("unknown", vector([acl(31, "none", "x")])),
                         ("null_scheme", vector([acl(31, None, "x")])),
                         ("auth", vector([acl(31, "auth", "")]))]:
        rec.op("acl_" + name, CREATE, made("/p", rights=rights))
    for flags in (-1, 5, 6, 7):
        rec.op(f"create_flags_{flags}".replace("-", "minus_"), CREATE, made("/p", flags=flags))
    rec.op("container_flags_5", CONTAINER, made("/p", flags=5))
    for flags, ttl in ((0, 5), (5, 0), (5, 1 << 40), (5, -1), (7, 1)):
        name = f"ttl_flags_{flags}_{ttl}".replace("-", "minus_")
        rec.op(name, TTL, made("/p", flags=flags) + long(ttl))
    paths = {"null": None, "empty": "", "no_slash": "a", "end": "/a/", "double": "/a//b",
             "dot": "/./x", "nul": "/a\0b", "slashes": "//"}
    records = {"create": (CREATE, text("d") + OPEN + integer(0)), "delete": (DELETE, integer(-1)),
               "get": (GET, boolean(0)), "exists": (EXISTS, boolean(0)),
               "set": (SET, text("d") + integer(99)), "get_acl": (GET_ACL, b""),
               "set_acl": (SET_ACL, OPEN + integer(99)), "children": (CHILDREN, boolean(0)),
               "children2": (CHILDREN2, boolean(0)), "count": (COUNT, b"")}
    for name, (kind, tail) in records.items():
        for sort, path in paths.items():
            if (name, sort) not in {("exists", "nul"), ("count", "empty")}:
                rec.op(f"path_{name}_{sort}", kind, text(path) + tail)
    rec.op("short_get", GET, text("/a"))
    rec.op("short_get_nothing", GET)
    rec.op("length_minus_2", GET, integer(-2) + boolean(0))
    rec.op("length_huge", GET, integer(2**31 - 1) + boolean(0))
    rec.op("data_minus_2", CREATE, text("/p") + integer(-2) + OPEN + integer(0))
    rec.op("bool_2", GET, text("/a") + boolean(2))
    rec.op("behind_get", GET, text("/a") + boolean(0) + b"more")
    rec.op("short_reconfig", RECONFIG)
    rec.op("delete_container", DELETE_CONTAINER, text("/c"))


def record_ends(rec):
    rec.op("auth", AUTH, integer(0) + text("digest") + text("paul:pw"), xid=-4)
    rec.op("identities_paul", WHOAMI)
    rec.op("auth_ip", AUTH, integer(0) + text("ip") + text("x"), xid=-4)
    rec.op("close", CLOSE, events=["event_at_close"])
    rec.closed("close_ends")
    for kind in (0, 10, 23, 99, 108, 1000, -1, -12):
        rec.fresh()
        rec.op(f"unknown_{kind}".replace("-", "minus_"), kind)
        rec.closed(f"unknown_{kind}_ends".replace("-", "minus_"))
    for name, kind, body in [("auth_short", AUTH, integer(0)), ("sasl_short", SASL, b""),
                             ("sasl_null", SASL, text(None))]:
        rec.fresh()
        rec.op(name, kind, body)
    rec.fresh()
    rec.op("auth_unknown", AUTH, integer(0) + text("none") + text("x"), xid=-4)
    rec.closed("auth_unknown_ends")


def record_hellos(rec):
    old = connect(tail=b"")
    rec.hello("connect_old", old)
    rec.hello("connect_no_passwd", connect(passwd=None))
    rec.hello("connect_short_passwd", connect(passwd=b"abc"))
    rec.hello("connect_behind", connect() + b"more")
    rec.hello("connect_unknown", connect(session=77))
    rec.hello("connect_unknown_old", connect(session=77, tail=b""))
    rec.hello("connect_low_timeout", connect(timeout_ms=-5))
    rec.hello("connect_short", connect(tail=b"")[:24])
    rec.hello("connect_passwd_minus_2", integer(0) + long(0) + integer(9) + long(0) + integer(-2))
    for count in (-1, 0, 4, 7, 2**31 - 1):
        rec.fresh()
        rec.connection.send(integer(count) + bytes(max(0, min(count, 7))))
        name = f"length_{count}".replace("-", "minus_")
        assert rec.connection.receive() is None, name
        rec.rows.append((name, (integer(count) + bytes(max(0, min(count, 7)))).hex(), ""))


def lines(rows):
    """The rows as C. An empty reply: the server closes the connection; an empty request: the frame
    comes by itself."""
    yield "/* Frames of ZooKeeper 3.8.0. Written by tests/zk/record.py: do not edit. */\n"
    for name, request, reply in rows:
        yield f'GOLDEN({name},\n       "{request}",\n       "{reply}")\n'


def record_all(port):
    """Sends everything to a server with an empty tree. Returns rows: name, request, reply."""
    rec = Recorder(port)
    record_basics(rec)
    rec.take_over("connect_take_over")
    record_watches(rec)
    record_multi(rec)
    record_refused(rec)
    record_ends(rec)
    record_hellos(rec)
    return rec.rows


def main():
    with Server() as server:
        rows = record_all(server.port)
    names = [row[0] for row in rows]
    assert len(names) == len(set(names)) and all(re.fullmatch(r"\w+", name) for name in names)
    now = "".join(lines(rows))
    if "--write" in sys.argv[1:]:
        FILE.write_text(now)
        print(f"{len(names)} frames written")
        return 0
    before = FILE.read_text()
    same = before == now
    print("".join(difflib.unified_diff(before.splitlines(True), now.splitlines(True), n=1)), end="")
    print(f"{len(names)} frames, " + ("the same" if same else "NOT the same as in " + str(FILE)))
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
