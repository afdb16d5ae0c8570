"""Name service: each name has one owner, and all clients find the same one."""

from clients import LANGUAGES
from ensemble import wait

NAMES = ("build", "mail", "printer")
REGISTERED = "registered"


def path_of(name):
    return f"/names/{name}"


def register_all(world, name):
    """All clients try to register the name. Returns pairs of a client and its value."""
    return [(world.start(language, "register", path_of(name), f"{name}-{language}-{i}"),
             f"{name}-{language}-{i}") for i in range(2) for language in LANGUAGES]


def owner_of(clients):
    """The value of the only client that has succeeded; all others print it, too."""
    for client, _ in clients:
        client.end()
    winners = [value for client, value in clients if client.lines == [REGISTERED]]
    assert len(winners) == 1, "\n".join(str(client) for client, _ in clients)
    for client, value in clients:
        if value != winners[0]:
            assert client.lines == [f"taken: {winners[0]}"], client
            assert client.process.returncode == 1, client
    return winners[0]


def check(world):
    clients = {name: register_all(world, name) for name in NAMES}
    wait(lambda: any(client.lines for client, _ in clients[NAMES[0]]), "the first is registered")
    world.ensemble.kill_leader()
    for name, language in zip(NAMES, LANGUAGES):
        owner = owner_of(clients[name])
        others = [world.start(language, "resolve", path_of(name)),
                  world.start(language, "release", path_of(name), "not mine")]
        assert [client.end() for client in others] == [0, 1], f"{others[0]}\n{others[1]}"
        assert others[0].lines == [owner], others[0]
        world.run(language, "release", path_of(name), owner)
    for name, language in zip(NAMES, reversed(LANGUAGES)):
        assert world.run(language, "register", path_of(name), "another") == [REGISTERED]
