"""Simple lock: one at a time, whichever language it is written in, across the leader's death.

And who can no longer know whether it holds a lock kills what it runs inside of it.
"""

import os
import signal
import time

from clients import LANGUAGES, SHORT_S
from ensemble import wait
from guarded import Resource

PATH = "/locks/import"
SILENT_NS = 1_000_000_000  # Ten times as long as the command takes for a sign of life.


def check_loss(world):
    """No replica answers: each command ends, before the ensemble could give the lock away."""
    # A builtin writes: no process that outlives the shell for an instant.
    script = 'trap "exit 1" TERM; while echo >"$0"; do sleep 0.1; done'
    holders = []
    for language in LANGUAGES:
        file = world.file(f"held-by-{language}")
        holders.append(world.start(language, f"/loss/{language}", "sh", "-c", script, file,
                                   session_s=SHORT_S))
        wait(lambda: os.path.exists(file), "it holds its lock")
    wait(world.ensemble.serves, "the killed replica is back")
    world.ensemble.signal_all(signal.SIGSTOP)
    for holder in holders:
        assert holder.end() != 0, holder
    for language in LANGUAGES:
        file = world.file(f"held-by-{language}")
        before = os.stat(file).st_mtime_ns
        wait(lambda: time.time_ns() - before > SILENT_NS, "some time has passed")
        assert os.stat(file).st_mtime_ns == before, f"the command of {language} lives on"
    world.ensemble.signal_all(signal.SIGCONT)
    world.ensemble.create("/loss/over")  # What was left in their queues is done.


def check(world):
    resource = Resource(world)
    clients = world.start_each(PATH, *resource.write(), times=4)
    wait(lambda: len(resource.written()) >= 3, "the lock goes from hand to hand")
    world.ensemble.kill_leader()
    for client in clients:
        assert client.end() == 0, client
    resource.check(len(clients))
    assert world.ensemble.children("/locks") == []
    check_loss(world)
