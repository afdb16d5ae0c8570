"""The same seeded requests, as raw frames, on a server and on a record of ZooKeeper's answers.

differential.py [--seed N] [--count N] [--write FILE | --compare FILE] HOST:PORT
Answers are compared as text: error, results, stats, events before each reply. Zxids become the number
of the request that wrote them, owners the number of the connection; times are left out.
"""

import argparse
import pathlib
import random
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "zk"))
from jute import (OPEN, Connection, acl, boolean, connect, frame, integer, long, text,  # noqa: E402
                  vector)

CREATE, DELETE, EXISTS, GET, SET, GET_ACL, SET_ACL, CHILDREN, SYNC = range(1, 10)
CHILDREN2, CHECK, MULTI, CREATE2 = range(12, 16)
CONTAINER, TTL, MULTI_READ = 19, 21, 22
AUTH, SET_WATCHES, EPHEMERALS, COUNT = 100, 101, 103, 104
CLOSE = -11
WRITES = {CREATE, CREATE2, SET, DELETE, SET_ACL, MULTI, CONTAINER, TTL}
USERS = [[], ["b:b"], ["c:c", "b:b"]]  # The identities of each connection.
AREA = 400        # Requests below one znode; then a new one begins.
BATCH_MAX = 12    # Requests that a connection sends before it reads. Only the last one is a write:
                  # zabra may answer a request after it has applied later ones, and shows their zxid.
RENEW = 0.01      # How often a batch is the end of a session, or a reconnect.
TTL_MS = 10 ** 9
NAMES = ["a", "b", "c", "Ü"]
ODD_PATHS = ["a", "/{}//x", "/{}/../x", "/{}/./x", "/{}/x/"]
NO_AUTH = -102

# Where the answers may differ; docs/zookeeper-clients.md has the same list. A pair of answers that none
# of them allows is a fault.
def refused(answer):
    """The answer to a create or a multi that did nothing, whatever the code."""
    words = answer.split()
    return words[3] != "0" or words[2] == str(MULTI) and words[-1].startswith("-")


ODD_PARTS = [b"//x", b"/x/", b"/../x", b"/./x", text("a")]


DIFFERENCES = {
    "exists needs READ, as since ZooKeeper 3.9":
        lambda kind, record, there, here: kind == EXISTS and here.endswith(f" {NO_AUTH}"),
    "an impossible path is refused before all else, also in a multi":
        lambda kind, record, there, here: kind in (CREATE, CREATE2, MULTI) and
        any(part in record for part in ODD_PARTS) and refused(there) and refused(here),
}


class Reader:
    def __init__(self, raw):
        self.raw = raw
        self.spot = 0

    def take(self, form):
        values = struct.unpack_from(">" + form, self.raw, self.spot)
        self.spot += struct.calcsize(">" + form)
        return values if len(values) > 1 else values[0]

    def text(self):
        length = self.take("i")
        if length < 0:
            return "null"
        self.spot += length
        return self.raw[self.spot - length:self.spot].decode()

    def texts(self):
        return sorted(self.text() for _ in range(self.take("i")))


class Session:
    def __init__(self, port, number):
        self.port = port
        self.number = number
        self.id = 0
        self.passwd = bytes(16)
        self.open()

    def open(self):
        self.connection = Connection(self.port)
        self.connection.send(frame(connect(session=self.id, passwd=self.passwd)))
        raw = Reader(self.connection.receive()[4:])
        _, told, self.id, _ = raw.take("iiqi")
        assert told and self.id, "no session"
        self.passwd = raw.raw[raw.spot:raw.spot + 16]
        for user in USERS[self.number]:
            self.connection.send(frame(integer(-4) + integer(AUTH) + integer(0) + text("digest") +
                                       text(user)))
            self.connection.receive()


class Run:
    """Makes requests by a seed and shows the answers as lines."""

    def __init__(self, port, seed):
        self.random = random.Random(seed)
        self.sessions = [Session(port, number) for number in range(len(USERS))]
        self.owners = {session.id: session.number for session in self.sessions}
        self.writers = {}  # zxid: request
        self.zxids = []    # of each reply
        self.count = 0
        self.lines = []
        self.kinds = []
        self.records = []  # Of the requests, to show those whose answers differ.
        self.area = None

    # ---- Requests ----

    def path(self):
        one = self.random.random()
        if one < 0.03:
            return self.random.choice(ODD_PATHS).format(self.area)
        depth = self.random.choice([1, 1, 1, 2, 2, 3])
        return f"/{self.area}" + "".join("/" + self.random.choice(NAMES) for _ in range(depth))

    def rights(self):
        if not self.guarded or self.random.random() < 0.5:
            return OPEN
        return self.random.choice([
            vector([acl(1, "world", "anyone")]), vector([acl(31, "auth", "")]), vector([]),
            vector([acl(31, "digest", "b:Jm6Vs/OQZSqDAvgLZDNsSVpPAT0=")]),
            vector([acl(31, "nosuch", "x")]),
            vector([acl(1, "world", "anyone"), acl(30, "auth", "")])])

    def version(self):
        return self.random.choice([-1, -1, -1, 0, 0, 1, 2, 5])

    def data(self):
        return self.random.choice([None, b"", b"x", b"x" * 300, bytes(range(256))])

    def watch(self):
        return boolean(not self.guarded and self.random.random() < 0.4)

    def write(self):
        """The type and record of a change; they may stand in a multi."""
        kind = self.random.choice([CREATE] * 5 + [CREATE2] * 2 + [SET] * 3 + [DELETE] * 3 + [CHECK])
        if kind == CREATE or kind == CREATE2:
            flags = self.random.choice([0] * 6 + [1, 2, 3])
            return kind, text(self.path()) + text(self.data()) + self.rights() + integer(flags)
        if kind == SET:
            return kind, text(self.path()) + text(self.data()) + integer(self.version())
        return kind, text(self.path()) + integer(self.version())

    def multi(self):
        parts = [self.write() for _ in range(self.random.randint(1, 5))]
        return MULTI, self.joined(parts)

    def multi_read(self):
        kinds = [self.random.choice([GET, CHILDREN]) for _ in range(self.random.randint(1, 4))]
        return MULTI_READ, self.joined([(kind, text(self.path()) + boolean(0)) for kind in kinds])

    @staticmethod
    def joined(parts):
        return (b"".join(integer(kind) + boolean(0) + integer(-1) + record for kind, record in parts) +
                integer(-1) + boolean(1) + integer(-1))

    def request(self):
        one = self.random.random()
        if one < 0.45:
            kind, record = self.write()
            return (kind, record) if kind != CHECK else (EXISTS, text(self.path()) + self.watch())
        if one < 0.53:
            return self.multi()
        if one < 0.57:
            return self.multi_read()
        if one < 0.60:
            return GET_ACL, text(self.path())
        if one < 0.63 and self.guarded:
            return SET_ACL, (text(self.path()) + self.rights() +
                             integer(self.version()))
        if one < 0.65:
            return self.random.choice([
                (SYNC, text(f"/{self.area}")), (EPHEMERALS, text(f"/{self.area}")),
                (COUNT, text(f"/{self.area}")),
                (CONTAINER, text(f"/{self.area}/box{self.count}") + text(b"k") + OPEN + integer(4)),
                (TTL, text(f"/{self.area}/ttl{self.count}") + text(b"t") + OPEN + integer(5) +
                 long(TTL_MS))])
        kind = self.random.choice([EXISTS, GET, GET, CHILDREN, CHILDREN2])
        return kind, text(self.path()) + self.watch()

    # ---- Answers ----

    def stat(self, raw):
        czxid, mzxid, _, _, version, cversion, aversion, owner, length, children, pzxid = \
            raw.take("qqqqiiiqiiq")
        names = [str(self.writers.get(zxid, "?")) for zxid in (czxid, mzxid, pzxid)]
        held = str(self.owners.get(owner, "?")) if owner else "-"
        return f"[{' '.join(names)} v{version} c{cversion} a{aversion} {held} {length} {children}]"

    def results(self, kind, raw):
        if kind in (CREATE, SYNC):
            return raw.text()
        if kind in (CREATE2, CONTAINER, TTL):
            return f"{raw.text()} {self.stat(raw)}"
        if kind in (SET, EXISTS, SET_ACL):
            return self.stat(raw)
        if kind == GET:
            length = raw.take("i")
            raw.spot += max(length, 0)
            return f"{length} {self.stat(raw)}"
        if kind in (CHILDREN, EPHEMERALS):
            return ",".join(raw.texts())
        if kind == CHILDREN2:
            return f"{','.join(raw.texts())} {self.stat(raw)}"
        if kind == GET_ACL:
            acls = [f"{raw.take('i')}:{raw.text()}:{raw.text()}" for _ in range(raw.take("i"))]
            return f"{','.join(sorted(acls))} {self.stat(raw)}"  # Identities have no order there.
        if kind == COUNT:
            return str(raw.take("i"))
        if kind in (MULTI, MULTI_READ):
            return self.parts(kind, raw)
        return ""

    def parts(self, outer, raw):
        shown = []
        while True:
            kind, done, error = raw.take("i?i")
            if done:
                return "; ".join(shown)
            if kind == -1:
                assert raw.take("i") == error
                shown.append(str(error))
            elif outer == MULTI_READ and kind == CHILDREN:
                shown.append(",".join(raw.texts()))
            else:
                shown.append(f"{kind} {self.results(kind, raw)}".rstrip())

    def answers(self, session, batch):
        """Reads the replies of a batch; the events before a reply stand in its line."""
        for number, kind in batch:
            events = []
            while True:
                whole = session.connection.receive()
                assert whole, f"request {number}, type {kind}: the server has closed"
                raw = Reader(whole[4:])
                xid, zxid, error = raw.take("iqi")
                if xid != -1:
                    break
                what, _ = raw.take("ii")
                events.append(f"!{what}{raw.text()}")
            assert xid == number, f"reply {xid} instead of {number}"
            if error == 0:
                self.writers.setdefault(zxid, number)
            self.zxids.append(zxid)
            shown = f" {self.results(kind, raw)}" if error == 0 else ""
            assert raw.spot == len(raw.raw), f"request {number}: bytes behind the result"
            # One change has several events, in no order of the protocol.
            self.lines.append(f"{number} {session.number} {kind} {' '.join([*sorted(events), str(error)])}"
                              f"{shown}".rstrip())
            self.kinds.append(kind)

    # ---- Sessions ----

    def send(self, session, kind, record):
        self.count += 1
        self.records.append(record)
        session.connection.send(frame(integer(self.count) + integer(kind) + record))
        return self.count, kind

    def renew(self, session):
        """The session ends and another begins, or moves to another connection."""
        if self.random.random() < 0.5:
            self.answers(session, [self.send(session, CLOSE, b"")])
            session.connection.close()
            session.id, session.passwd = 0, bytes(16)
            session.open()
            self.owners[session.id] = session.number
            return
        session.connection.close()
        session.open()
        if self.guarded or len(self.zxids) < AREA:
            return
        since = self.zxids[-self.random.randint(1, 60)]
        paths = [vector([text(self.path()) for _ in range(3)]) for _ in range(3)]
        self.answers(session, [self.send(session, SET_WATCHES, long(since) + b"".join(paths))])

    def batch(self):
        session = self.random.choice(self.sessions)
        if self.random.random() < RENEW:
            self.renew(session)
            return
        sent = []
        for _ in range(self.random.randint(1, BATCH_MAX)):
            kind, record = self.request()
            sent.append(self.send(session, kind, record))
            if kind in WRITES:
                break
        self.answers(session, sent)

    def run(self, count):
        while self.count < count:
            if self.area is None or self.count - self.began >= AREA:
                self.began = self.count
                self.area = f"d{self.count}"
                self.guarded = self.random.random() < 0.4
                self.answers(self.sessions[0], [self.send(
                    self.sessions[0], CREATE, text(f"/{self.area}") + text(b"") + OPEN + integer(0))])
            self.batch()
        for session in self.sessions:
            self.answers(session, [self.send(session, CLOSE, b"")])
            session.connection.close()
        return self.lines


def compare(there, here, run):
    allowed = dict.fromkeys(DIFFERENCES, 0)
    faults = 0
    for old, new, kind, record in zip(there, here, run.kinds, run.records, strict=True):
        if old == new:
            continue
        name = next((name for name, holds in DIFFERENCES.items() if holds(kind, record, old, new)), None)
        if name:
            allowed[name] += 1
            continue
        faults += 1
        if faults <= 20:
            print(f"ZooKeeper: {old}\nhere:      {new}\nrequest:   {record}")
    print(f"{len(there)} requests, {faults} answers differ; allowed:",
          ", ".join(f"{count} ({name})" for name, count in allowed.items()))
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--write", type=pathlib.Path)
    parser.add_argument("--compare", type=pathlib.Path)
    parser.add_argument("address")
    options = parser.parse_args()
    run = Run(int(options.address.rsplit(":", 1)[1]), options.seed)
    lines = run.run(options.count)
    if options.write:
        options.write.write_text("\n".join(lines) + "\n")
        print(f"{len(lines)} answers written")
    if options.compare:
        there = options.compare.read_text().splitlines()
        sys.exit(bool(compare(there, lines, run)))


main()
