"""Double barrier: none begins before all have entered, none leaves before all have finished."""

import os

from clients import LANGUAGES
from ensemble import wait

PATH = "/barriers/step-1"
COUNT = 6


def enter(world, i):
    """Starts a client that shows its begin, and finishes when the test touches its file."""
    begun, end = world.file(f"begun-{i}"), world.file(f"end-{i}")
    script = f'touch "{begun}"; until [ -e "{end}" ]; do sleep 0.02; done'
    return world.start(LANGUAGES[i % 3], PATH, f"m{i}", COUNT, "sh", "-c", script)


def begun(world):
    return [i for i in range(COUNT) if os.path.exists(world.file(f"begun-{i}"))]


def members(world):
    return len(world.ensemble.children(f"{PATH}/members"))


def waits_to_leave(client):
    """True if the client has deleted its member and waits for the last one."""
    assert client.runs(), f"the client left before the last: {client}"
    methods = [call[0] for call in client.calls if "/sessions/" not in call[1]]
    return "DELETE" in methods and methods[::-1].index("DELETE") >= 2


def check(world):
    clients = [enter(world, i) for i in range(COUNT - 1)]
    wait(lambda: members(world) == COUNT - 1, "all but one have entered")
    world.ensemble.kill_leader()
    wait(lambda: world.ensemble.leader() is not None, "there is another leader")
    assert members(world) == COUNT - 1 and not begun(world), "none begins before the last"
    clients.append(enter(world, COUNT - 1))
    wait(lambda: len(begun(world)) == COUNT, "all begin")
    for i in range(COUNT - 1):
        world.touch(f"end-{i}")
    wait(lambda: all(map(waits_to_leave, clients[:-1])), "all but one have finished")
    assert members(world) == 1
    world.touch(f"end-{COUNT - 1}")
    for client in clients:
        assert client.end() == 0, client
    assert members(world) == 0
