#!/usr/bin/env python3
"""replay.py PROGRAM: zabra answers the recorded requests as ZooKeeper has answered them.

Starts one replica, sends what record.py sends, and compares each frame with tests/unit/zk_golden.inc,
but for zxids and the order of lists.
"""

import json
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

import record
from server import free_port

START_S = 60
# ZooKeeper lists children, ephemerals and identities in the order of a hash table.
ANY_ORDER = {"children", "children2", "ephemerals", "ephemerals_null", "identities_paul",
             "multi_read", "path_children_empty", "path_children2_empty"}
# zabra's lowest timeout of a session is 2 s, ZooKeeper's two ticks: here 4 s.
DIFFER = {"connect_low_timeout"}


def start(program, folder):
    """Returns the process and its port."""
    for _ in range(20):
        port = free_port()
        if port + 1000 < 65536:
            break
    command = [program, "dev", "--nodes", "1", "--data", folder + "/data", "--port", str(port)]
    with open(folder + "/log", "wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    deadline = time.monotonic() + START_S
    while True:
        try:
            # Times stand still, at 0, until the leader knows the clocks of a majority. And the id
            # of the session must not look like other numbers, such as those of children.
            open_one = urllib.request.Request(f"http://127.0.0.1:{port}/sessions/v1", method="POST")
            with urllib.request.urlopen(open_one, timeout=2) as answer:
                session = json.load(answer)
                if session["opened_ms"] > 0 and int(session["session"], 16) & 0xffff > 64:
                    return process, port
                continue
        except OSError:
            pass
        if process.poll() is not None or time.monotonic() > deadline:
            process.terminate()
            process.wait(60)
            raise SystemExit("zabra does not start:\n" + pathlib.Path(folder + "/log").read_text())
        time.sleep(0.05)


def without_zxids(there, here):
    """Both replies without the zxids of `here`: they have the epoch 1 in their upper half.

    Before them are the length of the frame and the xid."""
    spot = 8
    while spot + 8 <= len(here):
        if here[spot:spot + 4] == b"\0\0\0\1" and here[spot + 4:spot + 6] == b"\0\0":
            there = there[:spot] + bytes(8) + there[spot + 8:]
            here = here[:spot] + bytes(8) + here[spot + 8:]
            spot += 7
        spot += 1
    return there, here


def same(name, there, here):
    if len(there) != len(here):
        return False
    there, here = without_zxids(there, here)
    return there == here or (name in ANY_ORDER and sorted(there) == sorted(here))


def main():
    known = dict(re.findall(r'GOLDEN\((\w+),\s*"[0-9a-f]*",\s*"([0-9a-f]*)"\)',
                            record.FILE.read_text()))
    with tempfile.TemporaryDirectory(prefix="zabra-zk-") as folder:
        process, port = start(sys.argv[1], folder)
        try:
            rows = record.record_all(port)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)
    bad = 0
    for name, _, reply in rows:
        if name not in DIFFER and not same(name, bytes.fromhex(known[name]), bytes.fromhex(reply)):
            print(f"{name}: ZooKeeper {known[name] or 'closes'}\n{' ' * len(name)}  zabra     "
                  f"{reply or 'closes'}")
            bad += 1
    print(f"{len(rows)} frames, {bad} differ")
    return 0 if bad == 0 and len(rows) == len(known) else 1


if __name__ == "__main__":
    sys.exit(main())
