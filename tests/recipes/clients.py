"""Client processes: the programs of a page, in their three languages."""

import os
import signal
import subprocess
import sys
import threading

from ensemble import wait
from pages import LANGUAGES

COMMANDS = {"sh": "sh", "mjs": "node", "py": sys.executable}
SESSION_S = 60  # Timeout of sessions, long enough for an overloaded machine.
SHORT_S = 12    # Timeout of sessions whose expiry a test waits for.


class Client:
    """One process. `lines` has its output, `calls` the calls that it has logged."""

    def __init__(self, command, directory, environment):
        self.lines = []
        self.calls = []
        self.errors = []
        self.process = subprocess.Popen(
            command, cwd=directory, env=environment, text=True, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        self.readers = [
            threading.Thread(target=self.read_output, daemon=True),
            threading.Thread(target=self.read_errors, daemon=True),
        ]
        for reader in self.readers:
            reader.start()

    def read_output(self):
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))

    def read_errors(self):
        for line in self.process.stderr:
            words = line.split()
            if words[:1] == ["call"]:
                self.calls.append(words[2:])
            else:
                self.errors.append(line)

    def runs(self):
        return self.process.poll() is None

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        """Kills only the process, like a crash; a command that it runs continues."""
        self.process.kill()
        self.process.wait()

    def end(self, seconds=200):
        """Waits until the process ends by itself; returns its exit code."""
        wait(lambda: not self.runs(), f"{self.process.args} ends", seconds)
        for reader in self.readers:
            reader.join(seconds)
        return self.process.returncode

    def close(self):
        """Kills the process and all its children."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()

    def __str__(self):
        errors = "".join(self.errors)
        return f"{self.process.args}: {self.process.returncode}\n{self.lines}\n{errors}"


class World:
    """The ensemble, directory and clients of a recipe's test."""

    def __init__(self, recipe, ensemble, directory, docs):
        self.recipe = recipe
        self.docs = docs
        self.ensemble = ensemble
        self.directory = directory
        self.clients = []

    def start(self, language, *args, session_s=SESSION_S):
        """Starts the page's program in this language."""
        command = [COMMANDS[language], f"{self.recipe}.{language}", *map(str, args)]
        return self.execute(*command, session_s=session_s)

    def execute(self, *command, session_s=SESSION_S):
        environment = {
            **os.environ,
            "PATH": f"{self.ensemble.binary.parent}:{os.environ['PATH']}",
            "XDG_CONFIG_HOME": self.directory,
            "ZABRA_ENDPOINTS": ",".join(self.ensemble.servers),
            "ZABRA": ",".join(self.ensemble.servers),
            "ZABRA_TIMEOUT": str(session_s),
            "ZABRA_LOG": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        client = Client(command, self.directory, environment)
        self.clients.append(client)
        return client

    def start_each(self, *args, times=1):
        """Starts the program in each language, with the same arguments."""
        return [self.start(language, *args) for _ in range(times) for language in LANGUAGES]

    def run(self, language, *args):
        """Runs the program, which must succeed; returns its output."""
        client = self.start(language, *args)
        assert client.end() == 0, client
        return client.lines

    def file(self, name):
        return os.path.join(self.directory, name)

    def touch(self, name):
        with open(self.file(name), "w", encoding="utf-8"):
            pass

    def close(self):
        for client in self.clients:
            client.close()
