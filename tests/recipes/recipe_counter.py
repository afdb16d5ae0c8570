"""Counter: no update is lost, no number is given twice, although the leader dies meanwhile."""

from clients import COMMANDS
from ensemble import wait
from other import HISTORY, Other
from pages import LANGUAGES

PATH = "/counters/tickets"
TIMES = 20


def check_history(world, language):
    """The program ends when the ensemble is restored to a state that lacks what it has seen."""
    with Other() as other:
        program = [COMMANDS[language], f"counter.{language}", PATH]
        client = world.execute("env", f"ZABRA={other.address}", *program)
        assert client.end() != 0, client
        assert other.shown == [(HISTORY, "0x5")], other.shown
        assert not client.lines, client


def check(world):
    for language in LANGUAGES:
        check_history(world, language)
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
