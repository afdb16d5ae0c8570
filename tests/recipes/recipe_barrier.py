"""Barrier: no client passes before it is lowered, also when the leader dies; then all pass."""

from clients import LANGUAGES
from ensemble import wait


def path_of(language):
    return f"/barriers/{language}"


def has_asked(client):
    return any(call[-1] == "200" for call in client.calls)


def check(world):
    waiting = []
    for language in LANGUAGES:
        world.run(language, "raise", path_of(language))
        waiting += world.start_each("pass", path_of(language), "echo", "through")
    wait(lambda: all(map(has_asked, waiting)), "all wait at the barriers")
    world.ensemble.kill_leader()
    wait(lambda: world.ensemble.leader() is not None, "there is another leader")
    late = world.start_each("pass", path_of("sh"), "echo", "through")
    wait(lambda: all(map(has_asked, late)), "late clients wait as well")
    assert not any(client.lines for client in waiting + late), "no client has passed"
    assert all(client.runs() for client in waiting + late)
    for language in LANGUAGES:
        world.run(language, "lower", path_of(language))
    for client in waiting + late:
        assert client.end() == 0, client
        assert client.lines == ["through"], client
    assert world.run("py", "pass", path_of("sh"), "echo", "free") == ["free"]
