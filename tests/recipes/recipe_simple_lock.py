"""Simple lock: one at a time, whichever language it is written in, across the leader's death."""

from ensemble import wait
from guarded import Resource

PATH = "/locks/import"


def check(world):
    resource = Resource(world)
    clients = world.start_each(PATH, *resource.write(), times=4)
    wait(lambda: len(resource.written()) >= 3, "the lock goes from hand to hand")
    world.ensemble.kill_leader()
    for client in clients:
        assert client.end() == 0, client
    resource.check(len(clients))
    assert world.ensemble.children("/locks") == []
