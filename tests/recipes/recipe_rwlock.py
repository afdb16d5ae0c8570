"""Read/write lock: writers are alone, readers share, none overtakes another."""

from clients import LANGUAGES
from ensemble import wait
from guarded import Resource

PATH = "/locks/catalog"


def check(world):
    resource = Resource(world)
    holder = world.start("mjs", "write", PATH, *resource.hold_until("go"))
    wait(lambda: resource.is_held("go"), "the first one holds the lock")
    clients = []
    for language in [*LANGUAGES, LANGUAGES[0]]:  # guard.READERS must read together.
        clients.append(world.start(language, "read", PATH, *resource.read()))
        wait(lambda: len(world.ensemble.children(PATH)) == len(clients) + 1, "one more waits")
    clients += world.start_each("write", PATH, *resource.write())
    clients += world.start_each("read", PATH, *resource.read())
    clients += world.start_each("write", PATH, *resource.write())
    wait(lambda: len(world.ensemble.children(PATH)) >= 9, "more wait")
    assert not resource.readers(), "none reads during the first write"
    world.touch("go")
    wait(resource.written, "it is written")
    world.ensemble.kill_leader()
    for client in [holder, *clients]:
        assert client.end() == 0, client
    resource.check(6)
    assert world.ensemble.children(PATH) == []
