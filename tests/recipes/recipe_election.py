"""Leader election: one leader at a time in the order of zxids, although old leaders still write."""

import itertools
import signal

from clients import LANGUAGES, SESSION_S, SHORT_S
from ensemble import wait

PATH = "/election/scheduler"
JOURNAL = "/journal"
LINES = 3      # Lines of each leader before the test ends it.
TURNS_MAX = 10000


def stand(world, language, name, session_s):
    """Starts a candidate; as leader it writes until a write is refused."""
    append = f'sh election.sh append "$ZABRA_CANDIDATE" {JOURNAL}'
    loop = f'i=0; while [ $i -lt {TURNS_MAX} ] && {append} "{name} $i"; do i=$((i + 1)); done'
    return world.start(language, "stand", PATH, name, "sh", "-c", loop, session_s=session_s)


def reign(world, name, language):
    """Waits until the candidate leads and has written; reads the leader's name."""
    def written():
        return sum(line.startswith(f"{name} ") for line in world.ensemble.values(JOURNAL)) >= LINES
    wait(written, f"{name} leads")
    assert world.run(language, "leader", PATH) == [name]


def check_journal(lines, names):
    terms = [(name, [int(line.split()[1]) for line in group])
             for name, group in itertools.groupby(lines, lambda line: line.split()[0])]
    assert [name for name, _ in terms] == names, "lines of two leaders are mixed, or one led twice"
    for name, numbers in terms:
        assert numbers == list(range(len(numbers))), f"{name} has lost or doubled a line"


def check(world):
    world.ensemble.create(JOURNAL)
    names = []
    clients = {}
    for i, language in enumerate([*LANGUAGES, "py"]):
        names.append(f"{language}-{i}")
        session_s = SESSION_S if i > 0 else SHORT_S  # The first one is killed.
        clients[names[-1]] = stand(world, language, names[-1], session_s)
        wait(lambda: len(world.ensemble.children(PATH)) == len(names), "one more stands")
    reign(world, names[0], "py")
    clients[names[0]].kill()  # Its command continues, and writes until the session expires.
    reign(world, names[1], "sh")
    world.ensemble.kill_leader()
    clients[names[1]].signal(signal.SIGTERM)
    reign(world, names[2], "mjs")
    clients[names[2]].signal(signal.SIGTERM)
    reign(world, names[3], "py")
    clients[names[3]].signal(signal.SIGTERM)
    wait(lambda: world.ensemble.children(PATH) == [], "there is no leader")
    check_journal(world.ensemble.values(JOURNAL), names)
