#!/usr/bin/env python3
"""Capacity of three replicas: what a znode, a session, a watch, an event and a write cost.

usage: capacity.py ZABRA

Prints the tables of docs/operating.md, "Measured capacity". Memory is the growth of the resident
memory of the replica that serves the clients, and of the tree as maxTreeBytes counts it. CPU is user
and system time of the processes, without the client. The servers listen on 127.0.0.1 only and end
with the program.
"""
import base64
import json
import os
import re
import socket
import sys
import threading
import time

import figures

ZNODES = 20000
BATCH = 100  # Creates of one multi.
SESSIONS = 5000
SOCKETS = 2000
WATCHES = 20  # Of a WebSocket.
EVENTS = 20  # Changes that all WebSockets watch.
IDLE_S = 10
WRITES = 8000
THREADS = 8
SIZES = (100, 1024, 10240)


class Capacity(figures.Ensemble):
    def __enter__(self):
        return self

    def __exit__(self, *failure):
        self.close()

    def metrics(self, index):
        text = self.request(index, "GET", "/metrics")[1].decode()
        return {name: float(value) for name, value in re.findall(r"^(\w+) (\S+)$", text, re.M)}

    def resident(self, index):
        with open(f"/proc/{self.processes[index].pid}/status", encoding="ascii") as status:
            return int(re.search(r"VmRSS:\s+(\d+)", status.read()).group(1)) * 1024

    def written(self, index):
        """Bytes that the process has written to files; write_bytes of the kernel counts the pages
        of whole folios, which the disk does not get."""
        with open(f"/proc/{self.processes[index].pid}/io", encoding="ascii") as io:
            return int(re.search(r"^wchar: (\d+)", io.read(), re.M).group(1))

    def sent(self):
        return sum(self.metrics(i)["zabra_peer_sent_bytes_total"] for i in range(self.count))

    def so_far(self, index):
        """What this replica and all have used until now: see Spent."""
        metrics = self.metrics(index)
        return (self.cpu_ms(index), self.cpu_ms(), metrics["zabra_log_sync_seconds_count"],
                self.sent(), self.written(index), metrics["zabra_ws_sent_bytes_total"])

    def must(self, status, method, path, body=None, headers=None):
        got, answer = self.request(0, method, path, body, headers, timeout=60)
        if got != status:
            raise SystemExit(f"{method} {path}: {got} {answer[:200]}")
        return answer


class Spent:
    """What a number of actions has cost one replica, and all of them, since the object was made."""

    def __init__(self, ensemble, index):
        self.ensemble, self.index = ensemble, index
        self.before = ensemble.so_far(index)

    def each(self, count):
        """CPU ms of the replica and of all for 1,000, its syncs for 1,000; bytes for each: between
        replicas, into its files, to WebSockets."""
        spent = [late - early for early, late in zip(self.before, self.ensemble.so_far(self.index))]
        return [round(value * 1000 / count) for value in spent[:3]] + \
            [round(value / count) for value in spent[3:]]


def table(columns, rows):
    print("\n| " + " | ".join(columns) + " |")
    print("|" + "---|" * len(columns))
    for row in rows:
        print("| " + " | ".join(str(cell) for cell in row) + " |")


def snapshot_bytes(ensemble):
    """Size of a snapshot of the first replica that has all of the state."""
    last = ensemble.metrics(0)["zabra_applied_zxid"]
    for _ in range(20000):
        if ensemble.metrics(0)["zabra_snapshot_zxid"] >= last:
            break
        ensemble.must(200, "PUT", "/znodes/v1/m", b"")
    else:
        raise SystemExit("there is no snapshot")
    found = []
    for folder, _, names in os.walk(f"{ensemble.dir}/1"):
        found += [os.path.join(folder, name) for name in names if name.startswith("snap")]
    return max(os.path.getsize(path) for path in found)  # A later one may not be complete.


def measure_znodes(zabra):
    rows = []
    os.environ["ZABRA_SNAP_COUNT"] = "100"  # A snapshot comes soon after the znodes.
    for size in SIZES:
        with Capacity(zabra, 3) as ensemble:
            data = base64.b64encode(b"x" * size).decode()
            ensemble.must(201, "PUT", "/znodes/v1/m?upsert=true", b"")
            before = ensemble.metrics(0)["zabra_tree_bytes"], ensemble.resident(0)
            for start in range(0, ZNODES, BATCH):
                ops = [{"op": "create", "path": f"/m/node{start + i:06}", "data64": data}
                       for i in range(BATCH)]
                ensemble.must(200, "POST", "/multi/v1", json.dumps({"ops": ops}),
                              {"Content-Type": "application/json"})
            rows.append((size, round((ensemble.metrics(0)["zabra_tree_bytes"] - before[0]) / ZNODES),
                         round((ensemble.resident(0) - before[1]) / ZNODES),
                         round(snapshot_bytes(ensemble) / ZNODES)))
    del os.environ["ZABRA_SNAP_COUNT"]
    table(("data of a znode (bytes)", "tree (bytes)",
           "resident, with the recent transactions for watchers (bytes)", "in a snapshot (bytes)"),
          rows)


class Socket:
    """A WebSocket that sends short text messages and reads short answers."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self.socket.sendall((
            f"GET /ws/v1 HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\n"
            "Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
            "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: zabra.v1.json\r\n\r\n").encode())
        self.bytes = b""
        while b"\r\n\r\n" not in self.bytes:
            self.more()
        self.bytes = self.bytes.split(b"\r\n\r\n", 1)[1]
        self.receive()  # hello

    def more(self):
        got = self.socket.recv(65536)
        if not got:
            raise SystemExit("a WebSocket was closed")
        self.bytes += got

    def receive(self):
        while len(self.bytes) < 4:
            self.more()
        size, head = self.bytes[1], 2
        if size == 126:
            size, head = int.from_bytes(self.bytes[2:4], "big"), 4
        while len(self.bytes) < head + size:
            self.more()
        text, self.bytes = self.bytes[head:head + size], self.bytes[head + size:]
        return text

    def call(self, message):
        text = json.dumps(message).encode()
        size = bytes([0x80 | len(text)]) if len(text) < 126 else b"\xfe" + len(text).to_bytes(2, "big")
        self.socket.sendall(b"\x81" + size + b"\0\0\0\0" + text)  # Masked with zeros.
        return self.receive()


def run_all(ensemble, count, request):
    """Does `count` requests through the first replica with some clients, each of which waits for its
    answers; `request(client, number)` gives method, path and body. Returns the answers."""
    answers = [[] for _ in range(THREADS)]

    def run(client):
        connection = figures.http.client.HTTPConnection("127.0.0.1", ensemble.port(0), timeout=60)
        for number in range(count // THREADS):
            connection.request(*request(client, number))
            answer = connection.getresponse()
            answers[client].append((answer.status, answer.read()))
        connection.close()

    threads = [threading.Thread(target=run, args=(i,)) for i in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for status, answer in (one for some in answers for one in some):
        if status not in (200, 201, 204):
            raise SystemExit(f"{status} {answer[:200]}")
    return answers


def measure_sessions(ensemble, sizes, costs):
    """Sessions that clients open, renew and close through a follower."""
    before = ensemble.resident(0), ensemble.metrics(0)["zabra_tree_bytes"]
    spent = Spent(ensemble, ensemble.leader())
    opened = run_all(ensemble, SESSIONS, lambda *_: ("POST", "/sessions/v1?expire=600", None))
    costs.append(("a session is opened", *spent.each(SESSIONS)))
    sizes.append(("a session, resident", round((ensemble.resident(0) - before[0]) / SESSIONS)))
    sizes.append(("a session, in the tree",
                  round((ensemble.metrics(0)["zabra_tree_bytes"] - before[1]) / SESSIONS)))
    ids = [[json.loads(answer)["id"] for _, answer in some] for some in opened]
    for text, method in (("it is renewed", "PUT"), ("it is closed", "DELETE")):
        spent = Spent(ensemble, ensemble.leader())
        run_all(ensemble, SESSIONS, lambda client, i, how=method:
                (how, f"/sessions/v1/{ids[client][i]}", None))
        costs.append((text, *spent.each(SESSIONS)))


def measure_watches(ensemble, sizes, costs):
    """WebSockets at the first replica: each watches paths of its own, and one that all watch."""
    before = ensemble.resident(0)
    sockets = [Socket(ensemble.port(0)) for _ in range(SOCKETS)]
    sizes.append(("a WebSocket without a watch", round((ensemble.resident(0) - before) / SOCKETS)))
    before = ensemble.resident(0)
    spent = Spent(ensemble, 0)
    for number, one in enumerate(sockets):
        for i in range(WATCHES):
            one.call({"id": i, "op": "watch", "path": f"/watched/{number}/{i}"})
    costs.append(("a watch is set", *spent.each(SOCKETS * WATCHES)))
    sizes.append(("a watch of a path of its own",
                  round((ensemble.resident(0) - before) / SOCKETS / WATCHES)))
    ensemble.must(201, "PUT", "/znodes/v1/all?upsert=true", b"")
    for one in sockets:
        one.call({"id": 0, "op": "watch", "path": "/all", "kind": "persistent"})
    spent = Spent(ensemble, 0)
    for _ in range(EVENTS):
        ensemble.must(200, "PUT", "/znodes/v1/all", b"x" * 100)
        for one in sockets:
            one.receive()
    costs.append(("an event is sent", *spent.each(SOCKETS * EVENTS)))


def measure_clients(zabra):
    costs = []
    with Capacity(zabra, 3) as ensemble:
        sizes = [("an empty replica, resident", ensemble.resident(0))]
        spent = Spent(ensemble, ensemble.leader())
        time.sleep(IDLE_S)
        costs.append(("a second passes", *spent.each(IDLE_S)))
        measure_sessions(ensemble, sizes, costs)
    with Capacity(zabra, 3) as ensemble:
        measure_watches(ensemble, sizes, costs)
    table(("item", "bytes"), sizes)
    table(("what happens", "CPU ms of one replica for 1,000", "CPU ms of all three", "syncs of its log for 1,000",
           "sent between replicas for each (bytes)", "written to its files for each (bytes)",
           "sent to WebSockets for each (bytes)"), costs)


def measure_writes(zabra):
    rows = []
    with Capacity(zabra, 3) as ensemble:
        ensemble.must(201, "PUT", "/znodes/v1/w?upsert=true", b"")
        for i in range(THREADS):
            ensemble.must(201, "PUT", f"/znodes/v1/w/{i}?upsert=true", b"")
        for size in SIZES:
            spent = Spent(ensemble, ensemble.leader())
            run_all(ensemble, WRITES,
                    lambda client, _, data=b"x" * size: ("PUT", f"/znodes/v1/w/{client}", data))
            rows.append((size, *spent.each(WRITES)[:5]))
    table(("data of a write (bytes)", "CPU ms of the leader for 1,000 writes", "CPU ms of all three",
           "syncs of its log for 1,000 writes", "sent between replicas for a write (bytes)",
           "written to its files for a write (bytes)"), rows)


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    measure_znodes(sys.argv[1])
    measure_clients(sys.argv[1])
    measure_writes(sys.argv[1])
    print(f"\nload average at the end {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
