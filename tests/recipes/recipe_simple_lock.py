"""Simple lock: one holder at a time in all languages, also when the leader dies.

A client that cannot know any more whether it holds the lock kills its command.
"""

import os
import signal
import time

from clients import LANGUAGES, SHORT_S
from ensemble import wait
from guarded import Resource

PATH = "/locks/import"
SILENT_NS = 1_000_000_000  # Ten times the interval of the command's writes.


def check_loss(world):
    """No replica answers: each command ends before the ensemble could grant the lock to another."""
    # A builtin writes, so no process outlives the shell.
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
        assert os.stat(file).st_mtime_ns == before, f"the command of {language} still runs"
    world.ensemble.signal_all(signal.SIGCONT)
    world.ensemble.create("/loss/over")  # All queued requests are executed.


def check(world):
    resource = Resource(world)
    clients = world.start_each(PATH, *resource.write(), times=2)
    wait(lambda: len(resource.written()) >= 3, "the lock changes its holder")
    world.ensemble.kill_leader()
    for client in clients:
        assert client.end() == 0, client
    resource.check(len(clients))
    assert world.ensemble.children("/locks") == []
    check_loss(world)
