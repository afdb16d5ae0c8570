"""kazoo's own tests, as its package has them, on servers that run already.

kazoo_suite.py --control PORT ADDRESSES. kazoo's harness starts a cluster; here it gets this one.
"""

import argparse
import faulthandler
import logging
import os
import socket
import sys
import unittest

from kazoo.testing import harness

TEST_S = 100  # No test takes longer; the threads are printed, and the program ends.
MODULES = ["barrier", "build", "cache", "client", "connection", "counter", "election", "lease", "lock",
           "partitioner", "party", "queue", "watchers"]
# They configure servers in ways of their own or need what Debian has not; kazoo does not know the
# error of a reconfig that is switched off, and hangs. ZooKeeper has its read-only mode off.
LEFT_OUT = ["sasl", "Sasl", "SSL", "ssl", "observer", "gevent", "eventlet", "TestReconfig",
            "TestReadOnlyMode", "TestBuild"]


class Server:
    def __init__(self, address, control):
        self.address = address
        self.client_port = int(address.rsplit(":", 1)[1])
        self.control = control
        self.running = True

    def stop(self):
        if self.running:
            self.tell("stop")
        self.running = False

    def run(self):
        if not self.running:
            self.tell("start")
        self.running = True

    def tell(self, word):
        with socket.create_connection(("127.0.0.1", self.control), 60) as sock:
            sock.sendall(f"{word} {self.client_port}\n".encode())
            assert sock.recv(16) == b"ok\n"


class Result(unittest.TextTestResult):
    def startTest(self, test):
        faulthandler.dump_traceback_later(TEST_S, exit=True)
        super().startTest(test)


class Cluster(list):
    def start(self):
        for server in self:
            server.run()

    def terminate(self):
        pass

    def reset(self):
        pass


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--control", type=int, required=True)
    parser.add_argument("--kind", default="")
    parser.add_argument("addresses")
    parser.add_argument("tests", nargs="*")
    options = parser.parse_args()
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)
    os.environ["ZOOKEEPER_VERSION"] = "3.8.0"
    cluster = Cluster(Server(address, options.control) for address in options.addresses.split(","))
    harness.get_global_cluster = lambda: cluster
    names = options.tests or [f"kazoo.tests.test_{name}" for name in MODULES]
    suite = unittest.TestSuite(pick(unittest.defaultTestLoader.loadTestsFromNames(names)))
    result = unittest.TextTestRunner(verbosity=2, resultclass=Result).run(suite)
    sys.exit(not result.wasSuccessful())


def pick(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from pick(test)
        elif not any(word in test.id() for word in LEFT_OUT):
            yield test


if __name__ == "__main__":
    main()
