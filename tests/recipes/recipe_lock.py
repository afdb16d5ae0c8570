"""Lock without herd effect: one at a time, in order, and one waiter wakes for each release."""

import collections

from clients import LANGUAGES, SESSION_S, SHORT_S
from ensemble import wait
from guarded import Resource

PATH = "/locks/report"
WAITERS = 6
DIES = 2  # Index of the waiter that dies.


def wakes(world):
    """For each znode, how many waiting clients saw its end."""
    count = collections.Counter()
    for client in world.clients:
        for method, url, status in (call for call in client.calls if len(call) == 3):
            if method == "GET" and f"{PATH}/lock-" in url and status == "404":
                count[url.split("?")[0]] += 1
    return count


def has_listed(client):
    """True if the client knows its predecessor, the only znode whose end it waits for."""
    return any(call[-1] == "200" and "view=children" in call[1] for call in client.calls)


def check(world):
    resource = Resource(world)
    holder = world.start("py", PATH, *resource.hold_until("go"))
    wait(lambda: resource.is_held("go"), "the first one holds the lock")
    waiters = []
    for i in range(WAITERS):  # In sequence, so that the test knows their order.
        session_s = SHORT_S if i == DIES else SESSION_S
        waiters.append(
            world.start(LANGUAGES[i % 3], PATH, *resource.write(), session_s=session_s))
        wait(lambda: len(world.ensemble.children(PATH)) == i + 2, "one more waits")
    wait(lambda: all(map(has_listed, waiters)), "each knows its predecessor")
    waiters.pop(DIES).kill()  # When its session ends, its successor wakes and must wait again.
    wait(lambda: len(world.ensemble.children(PATH)) == WAITERS, "the dead one's session ends")
    assert resource.written() == []
    world.touch("go")
    wait(lambda: len(resource.written()) >= 2, "the lock changes its holder")
    world.ensemble.kill_leader()
    for client in [holder, *waiters]:
        assert client.end() == 0, client
    fences = resource.check(WAITERS - 1)
    assert fences == sorted(fences), fences
    count = wakes(world)
    assert len(count) == WAITERS and set(count.values()) == {1}, count
    assert world.ensemble.children(PATH) == []
