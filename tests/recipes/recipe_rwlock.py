"""Read/write lock: writers are alone, readers are not, nobody overtakes."""

from ensemble import wait
from guarded import Resource

PATH = "/locks/catalog"


def check(world):
    resource = Resource(world)
    holder = world.start("mjs", "write", PATH, *resource.hold_until("go"))
    wait(lambda: resource.is_held("go"), "the first one holds the lock")
    clients = world.start_each("read", PATH, *resource.read())
    wait(lambda: len(world.ensemble.children(PATH)) == 4, "the readers wait")
    for _ in range(2):
        clients += world.start_each("write", PATH, *resource.write())
        clients += world.start_each("read", PATH, *resource.read())
    wait(lambda: len(world.ensemble.children(PATH)) >= 9, "more wait")
    assert not resource.readers(), "nobody reads while the first one writes"
    world.touch("go")
    wait(resource.written, "it is written")
    world.ensemble.kill_leader()
    for client in [holder, *clients]:
        assert client.end() == 0, client
    resource.check(6)
    assert world.ensemble.children(PATH) == []
