"""Counter: no update is lost, no number is given twice, although the leader dies in between."""

from ensemble import wait

PATH = "/counters/tickets"
TIMES = 20


def check(world):
    clients = world.start_each(PATH, TIMES, times=2)
    wait(lambda: sum(len(client.lines) for client in clients) > TIMES, "they count")
    world.ensemble.kill_leader()
    for client in clients:
        assert client.end() == 0, client
    numbers = sorted(int(line) for client in clients for line in client.lines)
    assert numbers == list(range(1, len(clients) * TIMES + 1)), numbers
    assert int(world.ensemble.value(PATH)) == numbers[-1]
    for client in clients:
        mine = [int(line) for line in client.lines]
        assert mine == sorted(mine), mine
