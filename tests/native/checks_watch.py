"""Watches, by kazoo and by its helpers."""

from kazoo.protocol.states import EventType
from kazoo.recipe.cache import TreeCache, TreeEvent

from world import check, equal, wait


def kinds(events):
    return [(event.type, event.path) for event in events]


@check(fast=True)
def one_shot_watches(w):
    path = w.path("watched")
    seen = []
    equal(w.zk.exists(path, watch=seen.append), None)
    w.zk.create(path, b"1")
    wait(lambda: len(seen) == 1, "created")
    w.zk.set(path, b"2")  # The watch is used up.
    w.zk.get(path, watch=seen.append)
    w.zk.get_children(path, watch=seen.append)
    w.zk.get_children(w.path(), watch=seen.append)
    w.zk.set(path, b"3")
    wait(lambda: len(seen) == 2, "changed")
    w.zk.create(path + "/child")
    wait(lambda: len(seen) == 3, "a child")
    w.zk.delete(path + "/child")
    w.zk.exists(path, watch=seen.append)
    w.zk.delete(path)
    wait(lambda: len(seen) == 5, "deleted, and the parent's children")
    w.zk.sync(w.root)
    equal(kinds(seen[:3]), [(EventType.CREATED, path), (EventType.CHANGED, path),
                            (EventType.CHILD, path)])
    equal(sorted(kinds(seen[3:])), sorted([(EventType.DELETED, path), (EventType.CHILD, w.root)]))


@check(fast=True)
def event_before_reply(w):
    path = w.path("order")
    w.zk.create(path)
    other = w.client(hosts=w.addresses)
    for n in range(50):
        seen = []
        w.zk.get(path, watch=seen.append)
        other.set(path, str(n).encode())
        w.zk.sync(path)
        data, _ = w.zk.get(path)
        equal(data, str(n).encode())
        # kazoo gives events to a thread of their own, before the reply wakes the caller.
        wait(lambda seen=seen: seen, "the event of a change that was read", 2)


@check(fast=True)
def data_watch(w):
    path = w.path("data")
    seen = []

    @w.zk.DataWatch(path)
    def changed(data, stat, event):
        seen.append((data, stat and stat.version, event and event.type))
        return len(seen) < 5 or None

    equal(seen, [(None, None, None)])
    w.zk.create(path, b"a")
    wait(lambda: len(seen) == 2, "created")
    w.zk.set(path, b"b")
    wait(lambda: len(seen) == 3, "changed")
    w.zk.delete(path)
    wait(lambda: len(seen) == 4, "deleted")
    w.zk.create(path, b"c")
    wait(lambda: len(seen) == 5, "created again")
    equal(seen[1:], [(b"a", 0, EventType.CREATED), (b"b", 1, EventType.CHANGED),
                     (None, None, EventType.DELETED), (b"c", 0, EventType.CREATED)])


@check(fast=True)
def children_watch(w):
    path = w.path("members")
    w.zk.create(path)
    seen = []

    @w.zk.ChildrenWatch(path)
    def changed(names):
        seen.append(sorted(names))
        return "stop" not in names  # False ends the watch.

    for count, name in enumerate(["a", "b", "stop"], 2):
        w.zk.create(f"{path}/{name}")
        wait(lambda count=count: len(seen) >= count, f"children with {name}")
    w.zk.create(path + "/after")
    w.zk.sync(path)
    equal(seen, [[], ["a"], ["a", "b"], ["a", "b", "stop"]])


@check(fast=True)
def watches_of_many(w):
    path = w.path("many")
    w.zk.create(path)
    seen = []
    for n in range(200):
        w.zk.create_async(f"{path}/{n}")
    for n in range(200):
        w.zk.get(f"{path}/{n}", watch=seen.append)
    other = w.client()
    for n in range(200):
        other.set_async(f"{path}/{n}", b"x")
    wait(lambda: len(seen) >= 200, "one event for each watch")
    equal(sorted(event.path for event in seen), sorted(f"{path}/{n}" for n in range(200)))


@check()
def tree_cache(w):
    path = w.path("tree")
    w.zk.create(path, b"root")
    w.zk.create(path + "/a/b", b"deep", makepath=True)
    events = []
    cache = TreeCache(w.zk, path)
    cache.listen(events.append)
    cache.start()
    wait(lambda: any(event.event_type == TreeEvent.INITIALIZED for event in events), "initialized")
    equal((cache.get_data(path).data, cache.get_data(path + "/a/b").data), (b"root", b"deep"))
    other = w.client()
    other.create(path + "/a/c", b"new")
    wait(lambda: cache.get_data(path + "/a/c"), "the new znode")
    other.set(path + "/a/c", b"newer")
    wait(lambda: cache.get_data(path + "/a/c").data == b"newer", "the new data")
    equal(sorted(cache.get_children(path + "/a")), ["b", "c"])
    other.delete(path + "/a", recursive=True)
    wait(lambda: cache.get_data(path + "/a") is None, "the tree without /a")
    removed = [event.event_data.path for event in events if event.event_type == TreeEvent.NODE_REMOVED]
    equal(sorted(removed), [path + "/a", path + "/a/b", path + "/a/c"])
    cache.close()
