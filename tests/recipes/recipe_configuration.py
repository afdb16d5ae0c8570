"""Configuration with ready: each read is complete, none goes back in time, all reach the newest."""

from clients import LANGUAGES
from ensemble import wait

PATH = "/app/config"
KEYS = ("host", "name", "port", "zone")
CHANGES = 9
KILL_AT = 4


def change(world, number):
    pairs = [f"{key}={number}" for key in KEYS]
    world.run(LANGUAGES[number % 3], "set", PATH, *pairs)


def line_of(number):
    return " ".join(f"{key}={number}" for key in KEYS)


def half_a_change(world, number):
    """The state that a writer leaves when it dies in the middle."""
    # 404: the first try deleted it, but its answer was lost.
    world.ensemble.call("DELETE", f"/znodes/v1{PATH}/ready", statuses=(204, 404))
    world.ensemble.call("PUT", f"/znodes/v1{PATH}/{KEYS[0]}", str(number))


def check(world):
    followers = world.start_each("follow", PATH)
    change(world, 0)
    wait(lambda: all(client.lines for client in followers), "all follow")
    for number in range(1, CHANGES):
        if number == KILL_AT:
            half_a_change(world, "broken")
            world.ensemble.kill_leader()
        change(world, number)
    last = line_of(CHANGES - 1)
    wait(lambda: all(client.lines[-1] == last for client in followers), "all have the newest")
    for client in followers:
        numbers = [int(line.rsplit("=", 1)[1]) for line in client.lines]
        assert client.lines == [line_of(number) for number in numbers], client
        assert numbers == sorted(set(numbers)), client
        assert client.runs(), client
