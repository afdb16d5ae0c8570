"""Lock without herd effect: one at a time, in order, and one waiter wakes for each release."""

import collections

from clients import LANGUAGES, SESSION_S, SHORT_S
from ensemble import wait
from guarded import Resource

PATH = "/locks/report"
WAITERS = 6
DIES = 2  # While it waits.


def wakes(world):
    """How often each znode's end was told to a client that waited for it."""
    count = collections.Counter()
    for client in world.clients:
        for method, url, status in (call for call in client.calls if len(call) == 3):
            if method == "GET" and f"{PATH}/lock-" in url and status == "404":
                count[url.split("?")[0]] += 1
    return count


def has_listed(client):
    """It knows which znode stands before its own: it waits for the end of that one, and no other."""
    return any(call[-1] == "200" and "view=children" in call[1] for call in client.calls)


def check(world):
    resource = Resource(world)
    holder = world.start("py", PATH, *resource.hold_until("go"))
    wait(lambda: resource.is_held("go"), "the first one holds the lock")
    waiters = []
    for i in range(WAITERS):  # One after the other, so that we know their order.
        session_s = SHORT_S if i == DIES else SESSION_S
        waiters.append(
            world.start(LANGUAGES[i % 3], PATH, *resource.write(), session_s=session_s))
        wait(lambda: len(world.ensemble.children(PATH)) == i + 2, "one more waits")
    wait(lambda: all(map(has_listed, waiters)), "each knows whom it waits for")
    waiters.pop(DIES).kill()  # Its successor is woken, when its session ends, and must wait again.
    wait(lambda: len(world.ensemble.children(PATH)) == WAITERS, "the dead one's session ends")
    assert resource.written() == []
    world.touch("go")
    wait(lambda: len(resource.written()) >= 2, "the lock goes from hand to hand")
    world.ensemble.kill_leader()
    for client in [holder, *waiters]:
        assert client.end() == 0, client
    fences = resource.check(WAITERS - 1)
    assert fences == sorted(fences), fences
    count = wakes(world)
    assert len(count) == WAITERS and set(count.values()) == {1}, count
    assert world.ensemble.children(PATH) == []
