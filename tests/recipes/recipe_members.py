"""Group membership: live members stay on the list when the leader dies; dead ones leave it."""

import signal

from clients import LANGUAGES, SESSION_S, SHORT_S
from ensemble import wait

PATH = "/groups/web"


def all_see(followers, names):
    line = " ".join(sorted(names))
    return lambda: all(client.lines and client.lines[-1] == line for client in followers)


def join(world, name, language, session_s=SESSION_S):
    return world.start(language, "join", PATH, name, f"address of {name}", session_s=session_s)


def check(world):
    followers = world.start_each("follow", PATH)
    members = {
        f"{language}-{i}": join(world, f"{language}-{i}", language, session_s)
        for i, session_s in enumerate([SESSION_S, SHORT_S])  # The members with SHORT_S are killed.
        for language in LANGUAGES
    }
    wait(all_see(followers, members), "all members are on the list")
    seen = [len(client.lines) for client in followers]
    world.ensemble.kill_leader()
    wait(lambda: world.ensemble.leader() is not None, "there is another leader")
    assert sorted(world.ensemble.children(PATH)) == sorted(members)

    members.pop("sh-0").signal(signal.SIGTERM)
    wait(all_see(followers, members), "a member that has left is off the list")
    for language in LANGUAGES:
        members.pop(f"{language}-1").kill()
    wait(all_see(followers, members), "dead members are off the list")
    join(world, "sh-1", "py")  # The name of a dead member.
    wait(all_see(followers, [*members, "sh-1"]), "the name is on the list again")
    for client, count in zip(followers, seen):
        for line in client.lines[count:]:
            assert set(members) <= set(line.split()), f"a living member was missing: {client}"
