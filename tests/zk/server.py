"""Starts the ZooKeeper of Debian's packages on 127.0.0.1, out of a directory: nothing is installed."""

import base64
import hashlib
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
KEPT = ROOT / "build" / "zookeeper"
# The packages that are needed to serve; all that only tools or a listener for HTTP need is left out.
PACKAGES = ["libzookeeper-java", "libnetty-java", "libsnappy-java", "libdropwizard-metrics-java",
            "libcommons-io-java", "libcommons-cli-java", "libslf4j-java"]
JARS = ["zookeeper", "zookeeper-jute", "netty-all", "snappy-java", "metrics-core", "commons-io",
        "commons-cli", "slf4j-api", "slf4j-simple"]
START_S = 60
STOP_S = 20


def digest(user, password):
    """The id of a user, as ACLs and superDigest name it."""
    sha1 = hashlib.sha1(f"{user}:{password}".encode()).digest()
    return f"{user}:{base64.b64encode(sha1).decode()}"


def fetch():
    """Unpacks the packages into build/zookeeper, unless they are there. Returns the class path."""
    jars = KEPT / "usr" / "share" / "java"
    if not (jars / "zookeeper.jar").exists():
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["apt-get", "download", "-q", *PACKAGES], cwd=folder, check=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            for package in sorted(pathlib.Path(folder).glob("*.deb")):
                subprocess.run(["dpkg-deb", "-x", package, KEPT], check=True)
    return ":".join(str(jars / (name + ".jar")) for name in JARS)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """One server with an empty tree. Use it in a `with` statement."""

    def __init__(self, super_password="secret"):
        if not shutil.which("java"):
            raise SystemExit("java is needed: install the package default-jre-headless")
        self.port = free_port()
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="zookeeper-"))
        self.log = self.folder / "log"
        config = self.folder / "zoo.cfg"
        config.write_text(f"tickTime=2000\ndataDir={self.folder}/data\nclientPort={self.port}\n"
                          "clientPortAddress=127.0.0.1\nadmin.enableServer=false\n"
                          "maxClientCnxns=0\n4lw.commands.whitelist=*\n")
        command = ["java", "-Xmx512m", "-Dzookeeper.extendedTypesEnabled=true",
                   "-Dzookeeper.DigestAuthenticationProvider.superDigest=" +
                   digest("super", super_password), "-cp", fetch(),
                   "org.apache.zookeeper.server.quorum.QuorumPeerMain", str(config)]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

    def __enter__(self):
        deadline = time.monotonic() + START_S
        while True:
            try:
                with socket.create_connection(("127.0.0.1", self.port), 1) as ask:
                    ask.sendall(b"srvr")
                    if b"Mode: " in ask.recv(4096, socket.MSG_WAITALL):
                        return self
            except OSError:
                pass
            if self.process.poll() is not None or time.monotonic() > deadline:
                text = self.log.read_text(errors="replace")[-2000:]
                self.__exit__()
                raise SystemExit(f"ZooKeeper does not start:\n{text}")
            time.sleep(0.1)

    def __exit__(self, *unused):
        self.process.terminate()
        try:
            self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
