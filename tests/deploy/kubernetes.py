#!/usr/bin/env python3
"""deploy/kubernetes: its manifests are right, and pods made from them work. See README.md here.

Usage: kubernetes.py packages|manifests|pods|long --zabra BINARY [--image ROOT]
ROOT is the file system of an image, for the pods; else they use that of this machine.
Prints each fault; exit code 77: what the check needs is not here.
"""

import argparse
import fcntl
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import kustomize
import pods
from manifests import FOLDER, TOP, check, check_manifests, faults, templates
from pods import Failed, wait

HERE = pathlib.Path(__file__).resolve().parent
NOT_HERE = 77
LATE_S = 30  # In the long run names are late by this.
STEP_S = 120  # A promotion takes ten seconds in step, and all of this on a loaded machine.

def say(text):
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


# ---- Packages of npm. ----


def check_packages(_):
    with open(HERE / ".lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamp = HERE / "node_modules" / ".of-lock"
        wanted = (HERE / "package-lock.json").read_text()
        if stamp.exists() and stamp.read_text() == wanted:
            return 0
        if not shutil.which("npm"):
            print("npm is not installed")
            return NOT_HERE
        words = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        if subprocess.run(words, cwd=HERE, check=False).returncode:
            if subprocess.run(["npm", "ping"], capture_output=True, check=False).returncode == 0:
                return 1
            print("the npm registry cannot be reached")
            return NOT_HERE
        stamp.write_text(wanted)
        return 0


# ---- Pods. ----


class Load:
    """A client that writes all the time; each write must succeed at some pod within 30 s."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.count = 0
        self.failed = None
        self.ends = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        try:
            while not self.ends.is_set():
                self.cluster.write(f"load-{self.count}", str(self.count))
                self.count += 1
                time.sleep(0.02)
        except Failed as failed:
            self.failed = failed

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ends.set()
        self.thread.join()

    def verify(self, pod):
        """All that was acknowledged is at this pod."""
        if self.failed:
            raise self.failed
        for number in range(self.count):
            path = f"/znodes/v1/load-{number}?consistency=linearizable"
            reply = self.cluster.call(pod, "GET", path)
            if reply.status != 200:
                raise Failed(f"{pod.name} lacks load-{number}: {reply.status} {reply.text}")
        say(f"{self.count} writes, none lost")


def voters(pod):
    """The ids of the voters, as this pod knows them."""
    code, text = pod.exec("members", "-o", "json")
    members = json.loads(text).get("members", []) if code == 0 else []
    return [member["id"] for member in members if member["role"] == "voter"]


def expect_waiting(cluster):
    """Without names nothing is founded; the processes are alive and say why."""
    for pod in cluster.pods:
        wait(f"{pod.name} is alive", lambda: pod.probe("liveness").status == 200, STEP_S)
        wait(f"{pod.name} says that its name has no address",
             lambda: "the name has no address" in pod.probe("readiness").text, STEP_S)
        if pod.probe("readiness").status != 503:
            raise Failed(f"{pod.name} is ready without a name")
        code, text = pod.exec("probe", "ready", "--config", "/etc/zabra/config/zabra.cfg")
        if code != 1 or "is not ready: member: no ensemble is founded yet" not in text:
            raise Failed(f"zabra probe: {code} {text}")


def found(cluster, late_s):
    """Three pods, whose names are late; the third one comes later than the others."""
    cluster.scale(2)
    expect_waiting(cluster)
    time.sleep(late_s)
    for pod in cluster.pods:
        if pod.process.poll() is not None:
            raise Failed(f"{pod.name} has ended while it had no name")
    cluster.publish(*cluster.pods)
    time.sleep(min(late_s, 5))
    if any(pod.is_ready() for pod in cluster.pods):
        raise Failed("two of three pods founded an ensemble")
    cluster.scale(3)
    time.sleep(late_s)
    cluster.publish(*cluster.pods)
    cluster.wait_ready(seconds=STEP_S)
    wait("three voters", lambda: voters(cluster.pods[0]) == [1, 2, 3], STEP_S)
    say("three pods are ready")


def end_all(cluster):
    """A drain with clients, and then the end: exit code 0, within the grace."""
    for pod in cluster.pods:
        pod.process.terminate()
    for pod in cluster.pods:
        code = pod.stop()
        if code != 0:
            raise Failed(f"{pod.name} ended with {code}")


def restart_each(cluster):
    """A rolling update: from the highest ordinal down; each pod comes back with a new address."""
    for pod in reversed(cluster.pods):
        code = pod.stop()
        if code != 0:
            raise Failed(f"{pod.name} ended with {code}")
        cluster.unpublish(pod)
        pod.start()
        time.sleep(2)
        cluster.publish(pod)
        cluster.wait_ready(pod, seconds=STEP_S)
    say("each pod was restarted")


def scale_up(cluster, late_s):
    """The new pods become voters by themselves."""
    cluster.scale(5)
    time.sleep(late_s)
    cluster.publish(*cluster.pods)
    cluster.wait_ready(seconds=STEP_S)
    wait("five voters", lambda: voters(cluster.pods[0]) == [1, 2, 3, 4, 5], STEP_S)
    say("five pods vote")


def remove(cluster, count):
    """As docs/kubernetes.md says: a member is removed before its pod goes. The container that the
    kubelet starts again stays out."""
    while len(cluster.pods) > count:
        pod = cluster.pods[-1]
        cluster.pods[0].super("members", "remove", str(pod.ordinal + 1))
        for _ in range(2):
            code = pod.process.wait(STEP_S)
            if code != 6 or not pod.says("has removed this replica"):
                raise Failed(f"{pod.name} ended with {code}")
            pod.start()
        pod.process.wait(STEP_S)
        cluster.shrink(len(cluster.pods) - 1)
        cluster.delete_claim(f"data-{pod.name}")
    wait("three voters", lambda: voters(cluster.pods[0]) == [1, 2, 3], STEP_S)
    cluster.wait_ready(seconds=STEP_S)
    say("two pods were removed")


def lose_volume(cluster):
    """A volume is lost: the pod is refilled, and votes again."""
    pod = cluster.pods[1]
    pod.kill()
    cluster.delete_claim("data-zabra-1")
    pod.start()
    cluster.publish(pod)
    cluster.wait_ready(pod, seconds=STEP_S)
    say("a lost volume was refilled")


def compose_spec(service):
    """What the specification of a pod has for a service of compose.yaml."""
    check(service["read_only"] is True and service["cap_drop"] == ["ALL"], "compose.yaml: rights")
    [volume] = service["volumes"]
    mounts = [{"name": "data", "mountPath": volume.split(":")[1]},
              {"name": "peers", "mountPath": "/run/secrets", "readOnly": True}]
    env = [{"name": name, "value": value} for name, value in service["environment"].items()]
    [port] = [int(entry.rsplit(":", 1)[1]) for entry in service["ports"]]
    probe = {"httpGet": {"path": "/readyz", "port": "clients"}, "timeoutSeconds": 3}
    return {"securityContext": {"runAsUser": 65532, "runAsGroup": 65532, "fsGroup": 65532},
            "terminationGracePeriodSeconds": int(service["stop_grace_period"].rstrip("s")),
            "volumes": [{"name": "peers", "secret": {
                "secretName": "zabra-peers", "defaultMode": 0o440,
                "items": [{"key": "secret", "path": "peers"}]}}],
            "containers": [{"args": ["serve"], "env": env, "volumeMounts": mounts,
                            "ports": [{"name": "clients", "containerPort": port}],
                            "readinessProbe": probe}]}


def compose_story(args, folder):
    """The services of compose.yaml, under the names of their hosts."""
    services = kustomize.documents(TOP / "deploy/container/compose.yaml")[0]["services"]
    specs = {service["hostname"]: compose_spec(service) for service in services.values()}
    first = {"kind": "StatefulSet", "metadata": {"name": "zabra"},
             "spec": {"template": {"spec": specs["zabra-0"]}}}
    cluster = pods.Cluster([first], folder, args.zabra, args.image)
    try:
        for ordinal, (name, spec) in enumerate(specs.items()):
            pod = pods.Pod(cluster, name, spec, ordinal)
            cluster.pods.append(pod)
            pod.start()
        cluster.publish(*cluster.pods)
        cluster.wait_ready(seconds=STEP_S)
        for pod in cluster.pods:
            code, text = pod.exec("probe", "ready")
            check(code == 0, f"compose.yaml: {text}")
        wait("three voters", lambda: voters(cluster.pods[0]) == [1, 2, 3], STEP_S)
        end_all(cluster)
    finally:
        cluster.close()


def play_compose(args):
    folder = tempfile.mkdtemp(prefix="zabra-compose-")
    os.chmod(folder, 0o755)
    try:
        compose_story(args, folder)
        say("three services of compose.yaml are ready")
    except Failed as failed:
        faults.append(f"compose.yaml: {failed}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def back_up(cluster):
    """What the CronJob runs, twice: a full backup, and the changes since."""
    spec = dict(templates(cluster.items))["zabra-backup"]
    for _ in range(2):
        cluster.write("backed-up", "data")
        code, text = cluster.run_job("zabra-backup", spec)
        if code != 0:
            raise Failed(f"the backup ended with {code}: {text}")
    say("two backups")


def run_restore(cluster):
    """The job of docs/kubernetes.md, as it is, and then the other replicas with new volumes."""
    end_all(cluster)
    cluster.shrink(0)
    [job] = kustomize.documents(FOLDER / "restore.yaml")
    code, text = cluster.run_job("zabra-restore", job["spec"]["template"]["spec"])
    if code != 0:
        raise Failed(f"the restore ended with {code}: {text}")
    for ordinal in (1, 2):
        cluster.delete_claim(f"data-zabra-{ordinal}")
    cluster.scale(3)
    cluster.publish(*cluster.pods)
    cluster.wait_ready(seconds=STEP_S)
    wait("three voters again", lambda: voters(cluster.pods[2]) == [1, 2, 3], STEP_S)
    volume = cluster.folder / "claims" / "data-zabra-0"
    return sorted(path.name for path in volume.iterdir())


def expect(cluster, name, status):
    reply = cluster.call(cluster.pods[2], "GET", f"/znodes/v1/{name}?consistency=linearizable")
    if reply.status != status:
        raise Failed(f"{name} after the restore: {reply.status} {reply.text}")


def restore(cluster):
    """First as after a wrong deployment, with the old data at hand, then with all volumes lost."""
    cluster.write("after-the-backups", "data")
    names = run_restore(cluster)
    if len(names) != 2 or not names[1].startswith("data.before-"):
        raise Failed(f"the volume of zabra-0 has {names}, not the data of before and that of now")
    expect(cluster, "backed-up", 200)
    expect(cluster, "after-the-backups", 404)
    say("restored beside the old data")
    cluster.write("after-the-restore", "data")
    back_up(cluster)
    end_all(cluster)
    cluster.shrink(0)
    cluster.delete_claim("data-zabra-0")
    if run_restore(cluster) != ["data"]:
        raise Failed("the volume has more than what was restored")
    expect(cluster, "after-the-restore", 200)
    say("restored from the backups after the loss of all volumes")


def play(args, overlay, story):
    """Runs a story in a network of its own."""
    folder = tempfile.mkdtemp(prefix="zabra-pods-")
    os.chmod(folder, 0o755)
    items = kustomize.build(FOLDER / overlay)
    for item in items:
        item["metadata"].pop("namespace", None)
    cluster = pods.Cluster(items, folder, args.zabra, args.image)
    try:
        if overlay.endswith("production"):
            cluster.make_certificates()
        story(cluster)
    except (Failed, subprocess.TimeoutExpired) as failed:
        faults.append(f"{overlay}: {failed}")
        print(subprocess.run(f"tail -n 8 {folder}/*.log", shell=True, stdout=subprocess.PIPE,
                             text=True, check=False).stdout)
    finally:
        cluster.close()
        shutil.rmtree(folder, ignore_errors=True)


def scrape(cluster):
    """Metrics are where the ServiceMonitor looks, and nowhere without TLS where clients need it."""
    ports = {port["name"]: port["port"] for item in cluster.items if item["kind"] == "Service"
             for port in item["spec"]["ports"]}
    monitor = [item for item in cluster.items if item["kind"] == "ServiceMonitor"]
    [endpoint] = monitor[0]["spec"]["endpoints"] if monitor else [{"port": "probes"}]
    secure = endpoint.get("scheme") == "https"
    if secure != (cluster.tls is not None):
        raise Failed("the ServiceMonitor and the replicas disagree about TLS")
    for pod in cluster.pods:
        port = ports[endpoint["port"]]
        reply = cluster.call(pod, "GET", "/metrics", host=f"{pod.ip}:{port}", port=port)
        if reply.status != 200 or "zabra_applied_zxid" not in reply.text:
            raise Failed(f"/metrics of {pod.name}: {reply.status} {reply.text[:200]}")
        reply = cluster.call(pod, "GET", "/metrics", port=ports["probes"])
        if reply.status != (404 if secure else 200):
            raise Failed(f"/metrics at the probes of {pod.name}: {reply.status}")
    say("metrics are where Prometheus looks")


def short_story(cluster):
    found(cluster, 1)
    scrape(cluster)
    cluster.write("app", "data")
    end_all(cluster)


def long_story(cluster):
    found(cluster, LATE_S)
    with Load(cluster) as load:
        scale_up(cluster, 5)
        restart_each(cluster)
        remove(cluster, 3)
        lose_volume(cluster)
        # The claims of the removed pods were deleted: they come back with new volumes.
        scale_up(cluster, 5)
        remove(cluster, 3)
    load.verify(cluster.pods[2])
    end_all(cluster)


def production_story(cluster):
    found(cluster, 5)
    scrape(cluster)
    with Load(cluster) as load:
        restart_each(cluster)
        scale_up(cluster, 1)
        back_up(cluster)
        remove(cluster, 3)
    load.verify(cluster.pods[2])
    restore(cluster)
    end_all(cluster)


def check_pods(args):
    if os.geteuid() != 0 or not shutil.which("ip"):
        print("this needs root, and iproute2")
        return NOT_HERE
    with pods.network():
        if args.check == "pods":
            play(args, "overlays/development", short_story)
            play_compose(args)
        else:
            play_compose(args)
            play(args, "base", long_story)
            play(args, "overlays/production", production_story)
    return 0


def main():
    checks = {"packages": check_packages, "manifests": check_manifests, "pods": check_pods,
              "long": check_pods}
    parser = argparse.ArgumentParser()
    parser.add_argument("check", choices=checks)
    parser.add_argument("--zabra")
    parser.add_argument("--image")
    args = parser.parse_args()
    try:
        code = checks[args.check](args)
    except (Failed, kustomize.Wrong) as failed:
        faults.append(str(failed))
        code = 1
    for fault in faults:
        print(fault)
    sys.exit(1 if faults else code)


main()
