"""The manifests of deploy/kubernetes agree with the schemas of Kubernetes, the program and its page."""

import json
import pathlib
import re
import shutil
import subprocess

import kustomize
import pods
from pods import find

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parents[1]
FOLDER = TOP / "deploy" / "kubernetes"
FOLDERS = ("base", "overlays/development", "overlays/production")
END_MS = 10000  # What a replica needs to end beside drainDelay and drainTimeout.

faults = []


def check(holds, fault):
    if not holds:
        faults.append(fault)


def compare_with_kubectl(folder, items):
    """kubectl of Debian is too old for components: only a later one is asked."""
    if not shutil.which("kubectl"):
        return
    ended = subprocess.run(["kubectl", "kustomize", FOLDER / folder], capture_output=True, text=True,
                           check=False)
    if ended.returncode and "unknown field" in ended.stderr:
        return
    check(ended.returncode == 0, f"{folder}: {ended.stderr}")
    ordered = [sorted(some, key=lambda item: (item["kind"], item["metadata"]["name"])) for some in
               (items, [item for item in kustomize.yaml.safe_load_all(ended.stdout) if item])]
    check(ordered[0] == ordered[1], f"{folder}: kubectl kustomize gives other documents")


def templates(items):
    """All specifications of pods, with the names of their owners."""
    for item in items:
        spec = item.get("spec", {})
        spec = spec.get("jobTemplate", {"spec": spec})["spec"]
        if "template" in spec:
            yield item["metadata"]["name"], spec["template"]["spec"]


def check_restricted(where, spec):
    """The profile "restricted" of the pod security standards, and a read-only root."""
    pod = spec["securityContext"]
    check(pod.get("runAsNonRoot") is True and pod.get("runAsUser") == 65532, f"{where}: root")
    check(pod.get("seccompProfile", {}).get("type") == "RuntimeDefault", f"{where}: seccomp")
    check(spec.get("automountServiceAccountToken") is False, f"{where}: a token is mounted")
    check(spec.get("enableServiceLinks") is False,
          f"{where}: variables of services may be keys of the configuration")
    for one in spec["containers"]:
        rights = one.get("securityContext", {})
        check(rights.get("allowPrivilegeEscalation") is False, f"{where}: may gain rights")
        check(rights.get("readOnlyRootFilesystem") is True, f"{where}: may write into its root")
        check(rights.get("capabilities") == {"drop": ["ALL"]}, f"{where}: keeps capabilities")
        check("memory" in one["resources"]["limits"], f"{where}: no bound of memory")
        check(":" in one["image"] or one["image"] == "zabra", f"{where}: an image without a tag")


def check_volumes(where, spec, claims, docs):
    known = {volume["name"] for volume in spec["volumes"]} | claims
    for one in spec["containers"]:
        for mount in one["volumeMounts"]:
            check(mount["name"] in known, f"{where}: there is no volume {mount['name']}")
    for volume in spec["volumes"]:
        name = volume.get("secret", {}).get("secretName")
        check(not name or f"secret generic {name}" in docs or f"secret tls {name}" in docs,
              f"docs/kubernetes.md does not say how the secret {name} is made")
        check(not name or volume["secret"].get("defaultMode") == 0o440,
              f"{where}: other users may read the secret {name}")


def memory_limit(spec):
    """The bytes of memory that the container may use."""
    number, unit = re.fullmatch(r"(\d+)(Mi|Gi)", spec["containers"][0]["resources"]["limits"]["memory"]).groups()
    return int(number) << {"Mi": 20, "Gi": 30}[unit]


def check_backups(where, items):
    """Each backup is replayed before it counts, with as much memory as a replica has."""
    specs = dict(templates(items))
    if "zabra-backup" in specs:
        check("--verify" in specs["zabra-backup"]["containers"][0]["args"],
              f"{where}: backups are not verified")
        check(memory_limit(specs["zabra-backup"]) >= memory_limit(specs["zabra"]),
              f"{where}: a backup that is verified needs as much memory as a replica")


def check_restore_page(docs):
    """A last backup, then the restore, and only then are volumes deleted; no backup meanwhile."""
    page = docs[docs.index("### Restore"):]
    steps = ['"suspend":true', "create job zabra-backup-last", "--replicas=0", "restore.yaml\n",
             "--for=condition=complete job/zabra-restore", "kubectl delete pvc", "--replicas=3",
             '"suspend":false']
    places = [page.find(step) for step in steps]
    check(-1 not in places and places == sorted(places),
          f"docs/kubernetes.md, Restore: not in the order of {steps}: {places}")


def check_commands(args, items):
    """Each container runs a command of zabra, with options that it has."""
    for owner, spec in templates(items):
        first, *words = spec["containers"][0]["args"]
        command = first if "command" not in spec["containers"][0] else owner.removeprefix("zabra-")
        text = pods.run(args.zabra, "help", command)
        for word in words:
            check(not word.startswith("--") or word in text, f"{owner}: {command} has no {word}")


def check_configuration(where, items, known_keys):
    """Each key of the file, and each variable of the environment, is one that zabra knows."""
    text = find(items, "ConfigMap", "zabra-config")["data"]["zabra.cfg"]
    keys = dict(re.findall(r"^([A-Za-z]+)=(.*)$", text, re.M))
    names = {"ZABRA_" + re.sub(r"([A-Z])", r"_\1", key).upper() for key in known_keys}
    names |= {"ZABRA_ENDPOINTS", "ZABRA_USER", "ZABRA_PASSWORD_FILE", "ZABRA_CA"}
    for key in keys:
        check(key in known_keys, f"zabra.cfg: {key} is no key")
    for owner, spec in templates(items):
        for entry in spec["containers"][0]["env"]:
            name = entry["name"]
            check(name in names or name in ("POD_NAME", "POD_NAMESPACE"),
                  f"{where}: {owner}: {name} is no key")
    return keys


def check_stateful_set(where, items, keys):
    stateful = find(items, "StatefulSet", "zabra")["spec"]
    spec = stateful["template"]["spec"]
    check(stateful["podManagementPolicy"] == "Parallel", f"{where}: pods wait for each other")
    peers = find(items, "Service", stateful["serviceName"])["spec"]
    check(peers["clusterIP"] == "None" and peers["publishNotReadyAddresses"] is True,
          f"{where}: pods that are not ready have no name")
    check(not find(items, "Service", "zabra")["spec"].get("publishNotReadyAddresses"),
          f"{where}: clients reach replicas that are not ready")
    check(find(items, "PodDisruptionBudget", "zabra")["spec"]["maxUnavailable"] == 1,
          f"{where}: more than one replica may be ended at a time")
    need_ms = int(keys["drainDelay"]) + int(keys["drainTimeout"]) + END_MS
    check(spec["terminationGracePeriodSeconds"] * 1000 > need_ms, f"{where}: no time to drain")
    check("lifecycle" not in spec["containers"][0], f"{where}: a hook")
    ports = {entry["name"]: entry["containerPort"] for entry in spec["containers"][0]["ports"]}
    listened = {"clients": keys["clientPort"], "peers": keys["peerListen"].rsplit(":")[-1],
                "probes": keys["probeListen"].rsplit(":")[-1]}
    check({name: str(port) for name, port in ports.items()} == listened,
          f"{where}: the ports differ from those of zabra.cfg")
    for item in items:
        if item["kind"] == "Service":
            for port in item["spec"]["ports"]:
                check(ports.get(port["targetPort"]) == port["port"],
                      f"{where}: {item['metadata']['name']}: port {port['port']}")


def check_schema(items):
    ended = subprocess.run(["node", HERE / "schema.js"], input=json.dumps(items), text=True,
                           stdout=subprocess.PIPE, check=False)
    print(ended.stdout, end="")
    return ended.returncode


def check_manifests(args):
    help_text = pods.run(args.zabra, "help", "serve")
    known = set(re.findall(r"^  ([a-z][A-Za-z0-9]+) ", help_text, re.M))
    docs = (TOP / "docs" / "kubernetes.md").read_text()
    everything = []
    for folder in FOLDERS:
        items = kustomize.build(FOLDER / folder)
        everything += items
        check_commands(args, items)
        compare_with_kubectl(folder, items)
        keys = check_configuration(folder, items, known)
        check_stateful_set(folder, items, keys)
        check_backups(folder, items)
        for owner, spec in templates(items):
            stateful = owner == "zabra"
            check_restricted(f"{folder}: {owner}", spec)
            check_volumes(f"{folder}: {owner}", spec, {"data"} if stateful else set(), docs)
    for name in ("restore.yaml", "restore-claim.yaml"):
        items = kustomize.documents(FOLDER / name)
        everything += items
        check_commands(args, items)
        for owner, spec in templates(items):
            check_restricted(f"{name}: {owner}", spec)
            check_volumes(f"{name}: {owner}", spec, set(), docs)
            check(memory_limit(spec) >= memory_limit(dict(templates(everything))["zabra"]),
                  f"{name}: a restore needs as much memory as a replica")
    check_restore_page(docs)
    return check_schema(everything)
