"""The commands to try print the output that the pages show."""

import re

import pages
from ensemble import wait

ASSIGNMENT = re.compile(r"^\w+=")
LONG_NUMBER = re.compile(r"\d{6,}")  # A zxid: different in each run.


def plain(lines):
    return [LONG_NUMBER.sub("#", line) for line in lines]


def is_under_way(client):
    """True if a background program has an answer about a znode, or has ended."""
    return not client.runs() or any("/znodes/" in call[1] for call in client.calls)


def try_page(world, name):
    setting = ""
    clients = []
    expected = []

    def is_shown():
        printed = [line for client in clients for line in plain(client.lines)]
        return all(printed.count(line) >= expected.count(line) for line in expected)

    commands = pages.examples(world.docs, name)
    for i, (command, shown) in enumerate(commands):
        expected += plain(shown)
        if ASSIGNMENT.match(command):
            setting += command + "\n"
            continue
        clients.append(world.execute("sh", "-c", setting + "exec " + command.rstrip("& ")))
        if command.endswith("&"):
            wait(lambda: is_under_way(clients[-1]), f"{command} is under way")
        elif i + 1 < len(commands):
            clients[-1].end()
        wait(is_shown, f"{name}.md shows {expected} below {command}")
    for client in clients:
        client.close()


def check(world):
    for name in pages.names(world.docs):
        try_page(world, name)
