"""What the recipes share: calls that are tried again elsewhere, a session, ways to wait.

Python 3.9 or newer, standard library only. See client.md beside this file.
"""
import http.client
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
import urllib.parse
import uuid

SERVERS = os.environ.get("ZABRA", "127.0.0.1:9998,127.0.0.1:9999,127.0.0.1:10000").split(",")
TIMEOUT_S = int(os.environ.get("ZABRA_TIMEOUT", "10"))  # Of a session.
PATIENCE_S = 30  # For one call, all its tries together.
PAUSE_S = 0.1    # Between two tries.
WAIT_S = 20      # For one long poll; then it is asked again.
AGAIN = {"InFlight", "ThrottledOp", "NotReady", "ReplicaBehind", "OperationTimeout"}


class Problem(Exception):
    """An answer that says no. `code` is its name, NodeExists for example."""

    def __init__(self, answer):
        problem = json.loads(answer.body or b"{}")
        self.status = answer.status
        self.code = problem.get("code", "")
        super().__init__(f"{answer.status} {self.code}: {problem.get('detail', '')}")


class SessionLost(Exception):
    """The session is over, or no replica could be asked for so long that it may be."""


class Answer:
    def __init__(self, status, headers, body):
        self.status = status
        self.headers = headers
        self.body = body
        self.etag = headers.get("ETag")

    @property
    def text(self):
        return self.body.decode()

    @property
    def json(self):
        return json.loads(self.body)


def target(path, **query):
    """The URL of a znode, without the server."""
    words = {key.rstrip("_"): "true" if value is True else value for key, value in query.items()}
    return "/znodes/v1" + urllib.parse.quote(path) + "?" + urllib.parse.urlencode(words)


class Client:
    """For one thread. As a context manager it has a session, which is closed at the end."""

    def __init__(self, secret=None):
        self.secret = secret
        self.seen = 0  # No answer may be older than what we have seen,
        self.history = None  # which is of this history.
        self.turn = random.randrange(len(SERVERS))
        self.lost = threading.Event()

    # --- Calls ---

    def call(self, method, url, body=None, headers=None, patience=PATIENCE_S, wait=0):
        """Tried until it is known what became of it. The key makes a second try harmless."""
        headers = dict(headers or {})
        if method != "GET" and not url.startswith("/sessions/"):
            headers["Idempotency-Key"] = str(uuid.uuid4())
        end = time.monotonic() + patience
        while True:
            answer = self.try_once(method, url, body, headers, patience / 2 + wait)
            if answer and answer.status < 400:
                return answer
            problem = Problem(answer) if answer else None
            if problem and problem.code in ("SessionExpired", "UnknownSession"):
                raise SessionLost(str(problem))
            if problem and problem.code not in AGAIN:
                raise problem
            if time.monotonic() > end:
                raise problem or TimeoutError(f"no answer from any of {SERVERS}")
            self.turn += 1
            time.sleep(PAUSE_S)

    def try_once(self, method, url, body, headers, timeout):
        headers = {"Zk-Min-Zxid": hex(self.seen), **headers}
        if self.history:
            headers["Zk-History"] = self.history
        if self.secret:
            headers["Zk-Session"] = self.secret
        server = SERVERS[self.turn % len(SERVERS)]
        connection = http.client.HTTPConnection(server, timeout=timeout)
        try:
            connection.request(method, url, body, headers)
            response = connection.getresponse()
            answer = Answer(response.status, response.headers, response.read())
        except (OSError, http.client.HTTPException) as error:
            self.log(server, method, url, error)
            return None
        finally:
            connection.close()
        self.log(server, method, url, answer.status)
        self.seen = max(self.seen, int(answer.headers.get("Zk-Zxid", "0"), 16))
        self.history = self.history or answer.headers.get("Zk-History")
        return answer

    def log(self, *words):
        if "ZABRA_LOG" in os.environ:
            sys.stderr.write(" ".join(map(str, ("call", *words))) + "\n")

    # --- Znodes ---

    def get(self, path, **query):
        """The data as it is; None when there is no such znode."""
        return self.read(target(path, **query), {"Accept": "application/octet-stream"})

    def create(self, path, data="", **query):
        """Sequential: the name gets a number. Returns the stat, with the path."""
        parent, name = path.rsplit("/", 1)
        url = target(parent or "/", op="create", name=name, **query)
        return self.call("POST", url, data.encode()).json

    def try_create(self, path, data="", **query):
        """The same; None when it is there already. Missing parents are made, too."""
        try:
            return self.create(path, data, parents=True, **query)
        except Problem as problem:
            if problem.code != "NodeExists":
                raise
            return None

    def set(self, path, data, etag=None, **query):
        """With an entity tag: only if the znode is still the one that was read."""
        headers = {"If-Match": etag} if etag else {}
        return self.call("PUT", target(path, **query), data.encode(), headers).json

    def try_set(self, path, data, etag):
        """The same; None when it is another one by now, or gone."""
        try:
            return self.set(path, data, etag)
        except Problem as problem:
            if problem.code not in ("BadVersion", "NoNode"):
                raise
            return None

    def delete(self, path):
        """Whether it existed and this call deleted it."""
        try:
            self.call("DELETE", target(path))
            return True
        except Problem as problem:
            if problem.code != "NoNode":
                raise
            return False

    def children(self, path):
        """Their names in order, and the entity tag to wait with."""
        answer = self.call("GET", target(path, view="children"))
        return answer.json["children"], answer.etag

    def multi(self, *ops):
        """All of these operations or none."""
        headers = {"Content-Type": "application/json"}
        return self.call("POST", "/multi/v1", json.dumps({"ops": ops}), headers).json["results"]

    # --- Waiting ---

    def wait(self, url, etag):
        """The answer that differs from the one with this entity tag; None when it is gone."""
        headers = {"If-None-Match": etag, "Prefer": f"wait={WAIT_S}"}
        while True:
            answer = self.read(url, headers, WAIT_S)
            if not answer or answer.status != 304:
                return answer
            time.sleep(PAUSE_S)  # Waiting is a wish: 304 may come at once.

    def read(self, url, headers=None, wait=0):
        try:
            return self.call("GET", url, headers=headers, wait=wait)
        except Problem as problem:
            if problem.code != "NoNode":
                raise
            return None

    def wait_children(self, path, etag):
        self.wait(target(path, view="children"), etag)

    def wait_gone(self, path):
        """Until the znode that is there now has been deleted."""
        url = target(path, dataformat="none")
        answer = first = self.read(url)
        while answer and answer.json["czxid"] == first.json["czxid"]:
            answer = self.wait(url, answer.etag)

    # --- A session ---

    def __enter__(self):
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        sent = time.monotonic()
        session = self.call("POST", f"/sessions/v1/?op=create&expire={TIMEOUT_S}").json
        self.secret = session["id"]
        beat = (session["timeout_ms"] / 1000, sent)
        threading.Thread(target=self.heartbeat, args=beat, daemon=True).start()
        return self

    def heartbeat(self, timeout, sent):
        """Every third of the time-out; after two thirds without an answer we are on our own."""
        beat = Client(self.secret)
        while not self.lost.wait(timeout / 3):
            left = sent + timeout * 2 / 3 - time.monotonic()
            sent = time.monotonic()
            try:
                beat.call("PUT", "/sessions/v1/", patience=max(left, 0))
            except (SessionLost, Problem, OSError):
                self.lost.set()

    def hold(self, command, **environment):
        """Runs a command, and kills it when the session is lost. Returns its exit code."""
        with subprocess.Popen(command, env={**os.environ, **environment}) as process:
            try:
                while process.poll() is None:
                    if self.lost.wait(0.02):
                        raise SessionLost("the command was killed")
            finally:
                process.kill()
        return process.returncode

    def stay(self):
        """Until SIGTERM comes or the session is lost."""
        self.lost.wait()
        raise SessionLost("no replica could be reached in time")

    def __exit__(self, *_):
        self.lost.set()
        try:
            self.call("DELETE", "/sessions/v1/", patience=2)
        except (SessionLost, Problem, OSError):
            pass  # It expires by itself.
