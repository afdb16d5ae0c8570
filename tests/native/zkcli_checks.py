"""zkCli's commands (org.apache.zookeeper.ZooKeeperMain), with what each must print.

zkcli_checks.py [--control PORT] [--kind NAME] [--tls DIR] ADDRESSES
With the directory of keys it connects over TLS, with the certificate of bob.
"""

import argparse
import pathlib
import subprocess
import sys

from servers import JAVA_CLASSES, JAVA_FLAGS

SHELL_S = 120
NETTY = ["buffer", "codec", "common", "handler", "resolver", "transport",
         "transport-native-epoll", "transport-native-unix-common"]
# Over TLS the client needs Netty.
CLASSES = ":".join([JAVA_CLASSES, *(f"/usr/share/java/netty-{part}.jar" for part in NETTY)])
MARK = "no-command-"
# A command, and texts that its output must have.
COMMANDS = [
    ("create /cli one", ["Created /cli"]),
    ("create -s /cli/s- x", ["Created /cli/s-0000000000"]),
    ("create -e /cli/e x", ["Created /cli/e"]),
    ("create -c /cli/box x", ["Created /cli/box"]),
    ("create -t 100000 /cli/ttl x", ["Created /cli/ttl"]),
    ("create /cli two", ["Node already exists: /cli"]),
    ("create /none/x y", ["Node does not exist: /none/x"]),
    ("get /cli", ["one"]),
    ("get -s /cli", ["dataLength = 3", "numChildren = 4", "dataVersion = 0"]),
    ("set -s /cli two", ["dataVersion = 1"]),
    ("set -v 0 /cli three", ["version No is not valid : /cli"]),
    ("stat /cli", ["cversion = 4", "ephemeralOwner = 0x0"]),
    ("ls /cli", ["[box, e, s-0000000000, ttl]"]),
    ("ls -s /cli", ["numChildren = 4"]),
    ("ls -R /cli", ["/cli/box", "/cli/ttl"]),
    ("getAllChildrenNumber /cli", ["4"]),
    ("getEphemerals /cli", ["[/cli/e]"]),
    ("getAcl /cli", ["'world,'anyone", ": cdrwa"]),
    ("addauth digest u:p", []),
    ("whoami", ["digest: u", "ip: 127.0.0.1"]),
    ("create /cli/mine x auth::cdrwa", ["Created /cli/mine"]),
    ("getAcl /cli/mine", ["'digest,'u:"]),
    ("setAcl -s /cli/mine world:anyone:r", ["aclVersion = 1"]),
    ("set /cli/mine y", ["Insufficient permission : /cli/mine"]),
    ("setquota -N 10 /cli", []),
    ("listquota /cli", ["Output quota for /cli count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=10",
                        "Output stat for /cli count=6,bytes=8"]),
    ("create /cli/q1 x", ["Created /cli/q1"]),
    ("create /cli/q2 x", ["Created /cli/q2"]),
    ("create /cli/q3 x", ["Created /cli/q3"]),
    ("create /cli/q4 x", ["Created /cli/q4"]),
    ("create /cli/q5 x", ["Quota has exceeded : /cli/q5"]),
    ("listquota /cli", ["Output stat for /cli count=10,bytes=12"]),
    ("delquota -N /cli", []),
    ("create /cli/q5 x", ["Created /cli/q5"]),
    ("listquota /cli", ["Output stat for /cli count=11,bytes=13"]),
    ("delquota /cli", []),
    ("listquota /cli", ["quota for /cli does not exist"]),
    ("sync /cli", ["Sync is OK"]),
    ("get -w /cli/e", ["x"]),
    ("set /cli/e y", ["WatchedEvent state:SyncConnected type:NodeDataChanged path:/cli/e"]),
    ("addWatch -m PERSISTENT /cli/e", []),
    ("delete /cli/e", ["type:NodeDeleted path:/cli/e"]),
    ("removewatches /cli/e", ["type:PersistentWatchRemoved path:/cli/e"]),
    ("version", ["ZooKeeper CLI version"]),
    ("deleteall /cli", []),
    ("stat /cli", ["Node does not exist: /cli"]),
]
COMMANDS_TLS = [("whoami", ["x509: CN=bob"])]


def tls_flags(keys):
    """The properties of ZooKeeper's TLS: a key store is the certificate and its key in one file."""
    store = keys / "bob-store.pem"
    store.write_text((keys / "bob.key").read_text() + (keys / "bob.pem").read_text())
    properties = {"clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
                  "client.secure": "true",
                  "ssl.keyStore.location": store, "ssl.keyStore.type": "PEM",
                  "ssl.trustStore.location": keys / "ca.pem", "ssl.trustStore.type": "PEM"}
    return [f"-Dzookeeper.{name}={value}" for name, value in properties.items()]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--control")
    parser.add_argument("--kind", default="")
    parser.add_argument("--tls", type=pathlib.Path)
    parser.add_argument("addresses")
    options = parser.parse_args()
    commands = [*COMMANDS, *(COMMANDS_TLS if options.tls else [])]
    # A word that is no command prints the usage, and itself: the mark behind each output.
    lines = [f"{command}\n{MARK}{n}" for n, (command, _) in enumerate(commands)]
    shell = subprocess.run(
        ["java", *JAVA_FLAGS, *(tls_flags(options.tls) if options.tls else []), "-cp", CLASSES,
         "org.apache.zookeeper.ZooKeeperMain", "-server", options.addresses],
        input="\n".join([*lines, "quit"]) + "\n", stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, timeout=SHELL_S, check=False)
    outputs = shell.stdout.split(MARK)
    assert len(outputs) == len(commands) + 1, shell.stdout
    failed = 0
    for n, (command, texts) in enumerate(commands):
        # The client prints an event when it gets it, which may be during later commands.
        found = "".join(outputs[n:]) if "type:" in "".join(texts) else outputs[n]
        for text in texts:
            if text not in found:
                print(f"{command}: no {text!r} in:\n{found.split('ZooKeeper -server')[0]}")
                failed += 1
    print(f"zkCli on {options.kind}: {len(commands)} commands, {failed} outputs differ")
    return bool(failed)


sys.exit(main())
