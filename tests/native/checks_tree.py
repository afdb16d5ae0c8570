"""Operations on znodes, transactions and access lists through kazoo."""

from kazoo.client import TransactionRequest
from kazoo.exceptions import (AuthFailedError, BadArgumentsError, BadVersionError, InvalidACLError,
                              NoAuthError, NoChildrenForEphemeralsError, NodeExistsError,
                              NoNodeError, NotEmptyError, RolledBackError,
                              RuntimeInconsistency)
from kazoo.security import (ACL, CREATOR_ALL_ACL, Id, OPEN_ACL_UNSAFE, Permissions,
                            READ_ACL_UNSAFE, make_acl, make_digest_acl,
                            make_digest_acl_credential)

from world import check, equal, expect, wait


@check(fast=True)
def start_and_stop(w):
    client = w.client()
    assert client.connected
    session, password = client.client_id
    assert session != 0 and len(password) == 16 and password != bytes(16)
    client.stop()
    assert not client.connected
    client.start(10)  # kazoo forgets a closed session.
    assert client.client_id[0] != session


@check(fast=True)
def create_modes(w):
    path = w.path("modes")
    equal(w.zk.create(path, b"one"), path)
    expect(NodeExistsError, w.zk.create, path)
    expect(NoNodeError, w.zk.create, path + "/a/b")
    equal(w.zk.create(path + "/a/b", makepath=True), path + "/a/b")
    equal(w.zk.create(path + "/s-", sequence=True), path + "/s-0000000001")  # After /a.
    equal(w.zk.create(path + "/s-", sequence=True, ephemeral=True), path + "/s-0000000002")
    equal(w.zk.create(path + "/", sequence=True), path + "/0000000003")
    equal(w.zk.create(path + "/e", ephemeral=True), path + "/e")
    equal(w.zk.get(path + "/e")[1].ephemeralOwner, w.zk.client_id[0])
    equal(w.zk.get(path)[1].ephemeralOwner, 0)
    expect(NoChildrenForEphemeralsError, w.zk.create, path + "/e/child")
    made, stat = w.zk.create(path + "/stat", b"12345", include_data=True)
    equal((made, stat.dataLength, stat.version, stat.numChildren), (path + "/stat", 5, 0, 0))
    equal(stat.czxid, stat.mzxid)
    equal(stat.czxid, stat.pzxid)


@check(fast=True)
def get_set_exists_delete(w):
    path = w.path("data")
    equal(w.zk.exists(path), None)
    expect(NoNodeError, w.zk.get, path)
    expect(NoNodeError, w.zk.set, path, b"x")
    expect(NoNodeError, w.zk.delete, path)
    w.zk.create(path, b"")
    equal(w.zk.get(path)[0], b"")
    stat = w.zk.set(path, b"two", version=0)
    equal((stat.version, stat.dataLength), (1, 3))
    expect(BadVersionError, w.zk.set, path, b"no", version=0)
    expect(BadVersionError, w.zk.delete, path, version=7)
    data, read = w.zk.get(path)
    equal((data, read), (b"two", stat))
    equal(w.zk.exists(path), stat)
    assert stat.mzxid > stat.czxid and stat.mtime >= stat.ctime > 10 ** 12
    large = bytes(range(256)) * 2048
    w.zk.set(path, large)
    equal(w.zk.get(path)[0], large)
    w.zk.create(path + "/child")
    expect(NotEmptyError, w.zk.delete, path)
    equal(w.zk.exists(path).cversion, 1)
    w.zk.delete(path, recursive=True)
    equal(w.zk.exists(path), None)
    expect(BadArgumentsError, w.zk.delete, "/")
    expect(BadArgumentsError, w.zk.delete, "/zookeeper")
    expect(NodeExistsError, w.zk.create, "/")


@check(fast=True)
def children(w):
    path = w.path("children")
    w.zk.create(path)
    equal(w.zk.get_children(path), [])
    names = [f"c{n:03}" for n in range(120)]
    results = [w.zk.create_async(f"{path}/{name}", name.encode()) for name in names]
    for result in results:
        result.get(10)
    equal(sorted(w.zk.get_children(path)), names)
    found, stat = w.zk.get_children(path, include_data=True)
    equal((sorted(found), stat.numChildren, stat.cversion), (names, 120, 120))
    w.zk.delete(path + "/c000")
    stat = w.zk.exists(path)
    equal((stat.numChildren, stat.cversion), (119, 121))
    expect(NoNodeError, w.zk.get_children, path + "/none")
    equal(w.zk.get_children(path + "/c001"), [])
    assert "zookeeper" in w.zk.get_children("/")
    assert {"config", "quota"} <= set(w.zk.get_children("/zookeeper"))


@check(fast=True)
def names_of_all_alphabets(w):
    path = w.path("Ünïcode-数据")
    w.zk.create(path, "Wörter".encode())
    equal(w.zk.get(path)[0].decode(), "Wörter")
    assert path.rsplit("/", 1)[1] in w.zk.get_children(w.path())
    w.zk.create(w.path("with space %20 ?&#+"))
    assert w.zk.exists(w.path("with space %20 ?&#+"))


@check(fast=True)
def order_of_a_pipeline(w):
    path = w.path("pipeline")
    w.zk.create(path)
    sets = [w.zk.set_async(path, str(n).encode()) for n in range(300)]
    read = w.zk.get_async(path)
    equal([done.get(20).version for done in sets], list(range(1, 301)))
    equal(read.get(20)[0], b"299")


@check(fast=True)
def transactions(w):
    path = w.path("transaction")
    w.zk.create(path, b"x")
    t = w.zk.transaction()
    assert isinstance(t, TransactionRequest)
    t.create(path + "/a", b"1")
    t.create(path + "/q", sequence=True)
    t.set_data(path, b"y", version=0)
    t.check(path, version=1)
    t.create(path + "/gone")
    t.delete(path + "/gone")
    made, queued, stat, checked, again, deleted = t.commit()
    equal((made, queued, checked, again, deleted),
          (path + "/a", path + "/q0000000001", True, path + "/gone", True))
    equal((stat.version, w.zk.get(path)[0]), (1, b"y"))
    expect(ValueErrorInKazoo, commit_twice, t)
    with w.zk.transaction() as t:
        t.create(path + "/with", ephemeral=True)
    equal(w.zk.get(path + "/with")[1].ephemeralOwner, w.zk.client_id[0])


class ValueErrorInKazoo(RuntimeInconsistency):
    """kazoo raises ValueError for a second commit."""


def commit_twice(t):
    try:
        t.commit()
    except ValueError as error:
        raise ValueErrorInKazoo from error


@check(fast=True)
def failed_transactions(w):
    path = w.path("failed")
    w.zk.create(path, b"x")
    before = w.zk.exists(path)
    for last, error in (("check", BadVersionError), ("set", NoNodeError), ("create", NodeExistsError),
                        ("delete", NotEmptyError)):
        t = w.zk.transaction()
        t.create(path + "/a")
        t.create(path + "/a/b")
        {"check": lambda: t.check(path, 9), "set": lambda: t.set_data(path + "/z", b""),
         "create": lambda: t.create(path), "delete": lambda: t.delete(path + "/a")}[last]()
        t.create(path + "/c")
        equal([type(result) for result in t.commit()],
              [RolledBackError, RolledBackError, error, RuntimeInconsistency])
        equal(w.zk.exists(path), before)


@check(fast=True)
def access_lists(w):
    path = w.path("acl")
    w.zk.create(path, b"x", acl=READ_ACL_UNSAFE)
    equal(w.zk.get(path)[0], b"x")
    expect(NoAuthError, w.zk.set, path, b"y")
    expect(NoAuthError, w.zk.create, path + "/c")
    expect(NoAuthError, w.zk.set_acls, path, OPEN_ACL_UNSAFE)
    equal(w.zk.get_acls(path)[0], READ_ACL_UNSAFE)
    owned = w.path("owned")
    expect(InvalidACLError, w.zk.create, owned, acl=CREATOR_ALL_ACL)
    expect(InvalidACLError, w.zk.create, owned, acl=[ACL(31, Id("nosuch", "x"))])
    user = w.client(auth_data=[("digest", "user:secret")])
    user.create(owned, b"mine", acl=CREATOR_ALL_ACL)
    equal(user.get(owned)[0], b"mine")
    w.zk.sync(owned)
    expect(NoAuthError, w.zk.get, owned)
    expect(NoAuthError, w.zk.get_children, owned)
    expect(NoAuthError, w.zk.get_acls, owned)
    acls, stat = user.get_acls(owned)
    equal((acls, stat.aversion), ([ACL(31, Id("digest", make_digest_acl_credential("user", "secret")))], 0))
    both = [make_digest_acl("user", "secret", all=True), make_acl("world", "anyone", read=True)]
    equal(user.set_acls(owned, both, version=0).aversion, 1)
    expect(BadVersionError, user.set_acls, owned, both, version=0)
    w.zk.sync(owned)
    masked = [ACL(31, Id("digest", "user:x")), ACL(Permissions.READ, Id("world", "anyone"))]
    equal(w.zk.get_acls(owned)[0], masked)
    equal(user.get_acls(owned)[0], both)
    equal(w.zk.get(owned)[0], b"mine")
    expect(NoAuthError, w.zk.set, owned, b"no")


@check(fast=True)
def added_identities(w):
    path = w.path("added")
    client = w.client()
    client.add_auth("digest", "one:1")
    client.add_auth("digest", "two:2")
    client.create(path, b"", acl=[make_digest_acl("two", "2", all=True)])
    equal(client.get(path)[0], b"")
    w.zk.sync(path)
    expect(NoAuthError, w.zk.get, path)
    auth = [Id("digest", make_digest_acl_credential(user, word))
            for user, word in (("one", "1"), ("two", "2"))]
    client.create(path + "/all", acl=CREATOR_ALL_ACL)
    equal(sorted(acl.id for acl in client.get_acls(path + "/all")[0]), sorted(auth))
    expect(AuthFailedError, w.client().add_auth, "nosuch", "x:y")
    client.delete(path, recursive=True)


@check(fast=True)
def wrong_digest(w):
    path = w.path("guarded")
    w.zk.create(path, b"x", acl=[make_digest_acl("user", "right", all=True)])
    wrong = w.client(auth_data=[("digest", "user:wrong")])
    wrong.sync(path)
    expect(NoAuthError, wrong.get, path)
    right = w.client(auth_data=[("digest", "user:right")])
    right.sync(path)
    equal(right.get(path)[0], b"x")
    right.delete(path)


@check(fast=True)
def chroot(w):
    base = w.path("chroot")
    w.zk.create(base)
    inner = w.client(hosts=w.addresses + base)
    equal(inner.create("/a", b"1"), "/a")
    equal(inner.create("/q-", sequence=True), "/q-0000000001")
    w.zk.sync(base)
    equal(w.zk.get(base + "/a")[0], b"1")
    equal(sorted(inner.get_children("/")), ["a", "q-0000000001"])
    seen = []
    equal(inner.get("/a", watch=seen.append)[0], b"1")
    w.zk.set(base + "/a", b"2")
    wait(lambda: seen, "an event with the path inside of the chroot")
    equal(seen[0].path, "/a")
    expect(NoNodeError, w.client(hosts=w.addresses + base + "/none").create, "/a")


@check(fast=True)
def sync_and_reads_elsewhere(w):
    path = w.path("sync")
    w.zk.create(path, b"0")
    others = [w.client(hosts=address) for address in w.addresses.split(",")]
    for n in range(10):
        w.zk.set(path, str(n).encode())
        for other in others:
            equal(other.sync(path), path)
            equal(other.get(path)[0], str(n).encode())
