"""Sessions: reconnects, take-over, kills, expiry; command words; frames that no client sends."""

import socket
import struct
import threading

from kazoo.protocol.states import KazooState

from world import check, dial, equal, receive, wait

SHORT_S = 4.0


@check(fast=True)
def ephemerals_end_with_close(w):
    path = w.path("e")
    client = w.client()
    client.create(path, ephemeral=True)
    client.create(path + "2", ephemeral=True, sequence=True)
    seen = []
    w.zk.sync(path)
    assert w.zk.exists(path, watch=seen.append)
    client.stop()
    wait(lambda: seen, "the event of the end")
    equal((seen[0].type, seen[0].path), ("DELETED", path))
    w.zk.sync(path)
    equal(w.zk.get_children(w.path()), [])


@check(fast=True)
def other_owner(w):
    path = w.path("e")
    client = w.client()
    client.create(path, ephemeral=True)
    w.zk.sync(path)
    w.zk.delete(path)  # Others may.
    client.sync(path)
    equal(client.exists(path), None)


@check(fast=True)
def command_words(w):
    for address in w.addresses.split(","):
        equal(words(address, "ruok"), "imok")
        assert "Mode: " in words(address, "srvr")
        assert "zk_server_state\t" in words(address, "mntr")
    version = w.client().server_version()
    assert version >= (3, 5), version
    assert "Zookeeper version" in w.zk.command(b"srvr")


def words(address, word):
    with dial(address) as sock:
        sock.sendall(word.encode())
        text = b""
        while part := sock.recv(65536):
            text += part
    return text.decode()


def connect(address, session=0, password=bytes(16), timeout=6000, seen=0, more=b""):
    """A connection without kazoo, and frames at once: returns socket, time-out, session, password."""
    sock = dial(address)
    body = struct.pack(">iqiq", 0, seen, timeout, session) + struct.pack(">i", 16) + password + b"\0"
    sock.sendall(struct.pack(">i", len(body)) + body + more)
    head = receive(sock, 4)
    if len(head) < 4:
        return sock, None, None, None
    body = receive(sock, struct.unpack(">i", head)[0])
    _, told, session = struct.unpack_from(">iiq", body)
    return sock, told, session, body[20:36]


def create_ephemeral(sock, path):
    text = path.encode()
    acl = struct.pack(">ii", 1, 31) + b"\0\0\0\5world\0\0\0\6anyone"
    body = (struct.pack(">iii", 1, 1, len(text)) + text + struct.pack(">i", -1) + acl +
            struct.pack(">i", 1))
    sock.sendall(struct.pack(">i", len(body)) + body)
    answer = receive(sock, struct.unpack(">i", receive(sock, 4))[0])
    equal(struct.unpack_from(">iqi", answer)[::2], (1, 0))


@check(fast=True)
def negotiated_timeout(w):
    sock, told, session, _ = connect(w.addresses.split(",")[0], timeout=5000)
    equal(told, 5000)
    assert session
    sock.close()
    sock, told, _, _ = connect(w.addresses.split(",")[0], timeout=1)
    assert told >= 1000, told
    sock.close()


@check(fast=True)
def wrong_password_keeps_owner(w):
    path = w.path("mine")
    client = w.client()
    client.create(path, ephemeral=True)
    session = client.client_id[0]
    for address in w.addresses.split(","):
        # ZooKeeper closes the owner's connection if the session is at the same server.
        if w.kind == "zookeeper" and address.endswith(f":{w.port(client)}"):
            continue
        sock, told, number, password = connect(address, session, b"x" * 16)
        equal((told, number, password), (0, 0, bytes(16)))
        equal(sock.recv(1), b"")
        sock.close()
    assert client.connected
    equal(client.client_id[0], session)
    assert client.exists(path)


@check(fast=True)
def unknown_session(w):
    sock, told, number, _ = connect(w.addresses.split(",")[0], 0x123456789, bytes(16))
    equal((told, number), (0, 0))
    equal(sock.recv(1), b"")
    sock.close()


@check(fast=True)
def ahead_of_the_server(w):
    sock, told, _, _ = connect(w.addresses.split(",")[0], seen=2 ** 62)
    equal(told, None)
    sock.close()


@check(fast=True)
def session_taken_elsewhere(w):
    path = w.path("kept")
    addresses = w.addresses.split(",")
    # The first owner is not kazoo, which would connect again and take its session back.
    sock, _, session, password = connect(addresses[0])
    create_ephemeral(sock, path)
    taken = w.client(hosts=addresses[1], client_id=(session, password))
    equal(taken.client_id[0], session)
    taken.sync(path)
    equal(taken.exists(path).ephemeralOwner, session)
    taken.set(path, b"by the second")
    equal(taken.get(path)[0], b"by the second")
    sock.close()


@check(fast=True)
def reconnect_keeps_session(w):
    path = w.path("kept")
    client = w.client()
    client.create(path, ephemeral=True)
    session = client.client_id[0]
    states = []
    client.add_listener(states.append)
    client._connection._socket.shutdown(socket.SHUT_RDWR)
    wait(lambda: states[-1:] == [KazooState.CONNECTED], "it reconnects")
    equal(states, [KazooState.SUSPENDED, KazooState.CONNECTED])
    equal((client.client_id[0], client.exists(path).ephemeralOwner), (session, session))


@check(needs=("kill",))
def killed_replica_keeps_session(w):
    path = w.path("kept")
    client = w.client()
    client.create(path, ephemeral=True)
    session = client.client_id[0]
    for _ in range(3):
        states = []
        client.add_listener(states.append)
        w.kill(w.port(client))
        wait(lambda states=states: states[-1:] == [KazooState.CONNECTED], "it reconnects", 30)
        client.remove_listener(states.append)
        assert KazooState.LOST not in states, states
        equal(client.client_id[0], session)
        client.retry(client.sync, path)
        found = client.retry(client.exists, path)
        equal(found.ephemeralOwner, session)
        client.retry(client.set, path, b"again")
    client.stop()
    wait(lambda: w.zk.retry(w.zk.exists, path) is None, "the ephemeral ends")


@check(needs=("kill",))
def recipes_through_kills(w):
    """Each server dies in turn, the leader too, while clients count under a lock."""
    path = w.path("counted")
    w.zk.create(path, b"0")
    done = threading.Event()
    held = threading.Lock()

    def work(client):
        """A failed attempt may have counted, so each round says so by its znode."""
        rounds = 0
        while not done.is_set():
            lock = client.Lock(path + "-lock")
            client.retry(lock.acquire)
            assert held.acquire(blocking=False), "two hold the lock"
            held.release()
            client.retry(client.create, f"{path}/n-", sequence=True)
            client.retry(lock.release)
            rounds += 1
        return rounds

    workers = [w.thread(work, w.client(timeout=15)) for _ in range(3)]
    for port in [int(address.rsplit(":", 1)[1]) for address in w.addresses.split(",")]:
        before = len(w.zk.retry(w.zk.get_children, path))
        w.kill(port)
        wait(lambda before=before: len(w.zk.retry(w.zk.get_children, path)) > before + 10,
             "the work continues", 40)
        wait(lambda port=port: "Mode: " in words_or_none(port), "the killed one serves again", 40)
    done.set()
    rounds = sum(worker.value(40) for worker in workers)
    w.zk.retry(w.zk.sync, path)
    assert len(w.zk.get_children(path)) >= rounds  # An attempt whose reply was lost counts twice.


def words_or_none(port):
    try:
        return words(f"127.0.0.1:{port}", "srvr")
    except OSError:
        return ""


@check(needs=("kill",))
def watchers_through_kills(w):
    path = w.path("told")
    w.zk.create(path, b"0")
    client = w.client(timeout=15)
    seen = []
    client.DataWatch(path, lambda data, stat: seen.append(data) and None)
    for n in range(1, 4):
        w.kill(w.port(client))
        w.zk.retry(w.zk.set, path, str(n).encode())
        wait(lambda n=n: seen and seen[-1] == str(n).encode(), "the change is seen", 30)


@check()
def expired_session(w):
    path = w.path("e")
    addresses = w.addresses.split(",")
    sock, told, session, password = connect(addresses[0], timeout=int(SHORT_S * 1000))
    create_ephemeral(sock, path)
    seen = []
    wait(lambda: w.zk.exists(path), "the ephemeral is made")
    equal(w.zk.exists(path, watch=seen.append).ephemeralOwner, session)
    sock.close()
    wait(lambda: seen, "the ephemeral ends with its session", told / 1000 * 2 + 10)
    equal((seen[0].type, w.zk.exists(path)), ("DELETED", None))
    sock, again, number, _ = connect(addresses[1], session, password)
    equal((again, number), (0, 0))
    sock.close()


@check()
def expiry_is_told(w):
    """kazoo learns that its session has ended, and opens another one."""
    path = w.path("e")
    client = w.client(timeout=SHORT_S)
    client.create(path, ephemeral=True)
    session, password = client.client_id
    states = []
    client.add_listener(states.append)
    close_session = struct.pack(">iii", 8, 1, -11)

    def lost():
        """Takes the session and closes it. kazoo may be faster and take it back before."""
        if KazooState.LOST in states:
            return True
        sock = connect(w.addresses.split(",")[0], session, password, more=close_session)[0]
        while sock.recv(4096):
            pass
        sock.close()
        return False

    wait(lost, "the session is lost", 30)
    wait(lambda: states[-1] == KazooState.CONNECTED, "another one is opened", 30)
    assert client.client_id[0] != session
    client.sync(path)
    equal(client.exists(path), None)


@check(fast=True)
def raw_frames(w):
    """Frames that no client sends: the server answers or closes, and serves others on."""
    address = w.addresses.split(",")[0]
    for frame in (bytes(4), b"\0\0\0\5abcde", b"\0\xff\xff\xff"):
        with dial(address) as sock:
            sock.sendall(frame)
            closed(sock)
    for frame in (b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\0\0\0"):
        sock = connect(address)[0]
        sock.sendall(frame)
        closed(sock)
    sock = connect(address)[0]
    sock.sendall(struct.pack(">iii", 8, 7, 999))
    answer = receive(sock, 20)
    equal(struct.unpack(">iiqi", answer)[1::2], (7, -6))
    closed(sock)
    assert w.zk.exists("/")


def closed(sock):
    try:
        equal(sock.recv(1), b"")
    except ConnectionResetError:
        pass
    sock.close()
