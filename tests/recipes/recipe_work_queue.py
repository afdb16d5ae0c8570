"""Producer-consumer queue: each element once, those of one producer in order."""

import collections

from clients import LANGUAGES
from ensemble import wait

PATH = "/queues/mail"
ITEMS = 20     # Per producer.
CONSUMERS = 2  # In each language.


def check(world):
    consumers = world.start_each("take", PATH, ITEMS // CONSUMERS, times=CONSUMERS)
    producers = [
        world.start(language, "put", PATH, *(f"{language}:{i}" for i in range(ITEMS)))
        for language in LANGUAGES
    ]
    wait(lambda: sum(len(client.lines) for client in consumers) > ITEMS, "items are taken")
    world.ensemble.kill_leader()
    for client in producers + consumers:
        assert client.end() == 0, client
    taken = collections.Counter(line for client in consumers for line in client.lines)
    assert set(taken.values()) == {1}, taken
    assert set(taken) == {f"{language}:{i}" for language in LANGUAGES for i in range(ITEMS)}
    for client in consumers:
        for language in LANGUAGES:
            pairs = (line.split(":") for line in client.lines)
            numbers = [int(number) for producer, number in pairs if producer == language]
            assert numbers == sorted(numbers), client.lines
    assert world.ensemble.children(PATH) == []
