"""Rendezvous: one master fills it, all workers get that address and notice the end."""

import signal

from clients import LANGUAGES
from ensemble import wait


def path_of(language):
    return f"/meet/{language}"


def fill(world, language):
    """Three masters try; returns the address of the first one."""
    world.run(language, "fill", path_of(language), f"at-{language}")
    late = [world.start(other, "fill", path_of(language), f"at-{other}")
            for other in LANGUAGES if other != language]
    assert all(master.end() != 0 for master in late), "\n".join(map(str, late))
    return f"at-{language}"


def check(world):
    openers = {language: world.start(language, "open", path_of(language)) for language in LANGUAGES}
    wait(lambda: len(world.ensemble.children("/meet")) == len(openers), "all are open")
    workers = {language: world.start_each("meet", path_of(language)) for language in LANGUAGES}
    all_workers = [worker for group in workers.values() for worker in group]
    wait(lambda: all(worker.calls for worker in all_workers), "the workers wait")
    assert not any(worker.lines for worker in all_workers), "there is no address yet"
    world.ensemble.kill_leader()
    addresses = {language: fill(world, language) for language in LANGUAGES}
    wait(lambda: all(worker.lines for worker in all_workers), "all workers know the address")
    for language in LANGUAGES:
        assert all(worker.lines == [addresses[language]] for worker in workers[language])
        openers[language].signal(signal.SIGTERM)
    for language in LANGUAGES:
        openers[language].end()
        for worker in workers[language]:
            assert worker.end() == 0, worker
            assert worker.lines == [addresses[language], "gone"], worker
