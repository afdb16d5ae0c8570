#!/usr/bin/env python3
"""Figures of a release build: load through HTTP with wrk, and a million znodes.

usage: figures.py ZABRA [load|million|failover|pause] ...

All servers listen on 127.0.0.1 only and end with the program. Server CPU is user + system time of
all replica processes from /proc, so it does not include the client. If nginx is installed, its
static answer of the same size is measured in the same run: on a busy or slow machine the ratio is
more meaningful than the figure.
"""
import base64
import http.client
import json
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

BASE_PORT = 19100
SECONDS = 5
PUT_LUA = """
wrk.method = "PUT"
wrk.body = string.rep("x", 1024)
wrk.headers["Content-Type"] = "application/octet-stream"
wrk.headers["Accept"] = "application/octet-stream"
"""


def cpu_ms(pids):
    """User and system time of the processes so far."""
    total = 0
    for pid in pids:
        with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        total += int(fields[11]) + int(fields[12])
    return total * 1000 / os.sysconf("SC_CLK_TCK")


class Ensemble:
    """`count` replicas on loopback, each its own process."""

    def __init__(self, zabra, count):
        self.zabra, self.count = zabra, count
        self.dir = tempfile.mkdtemp(prefix="zabra-figures-")
        self.processes = [self.start(i) for i in range(count)]
        for i in range(count):
            self.wait_ready(i)

    def port(self, index):
        return BASE_PORT + index

    def start(self, index):
        args = [self.zabra, "serve", "--id", str(index + 1), "--dataDir", f"{self.dir}/{index + 1}",
                "--clientPort", str(self.port(index))]
        for i in range(self.count if self.count > 1 else 0):
            args += [f"--server.{i + 1}", f"127.0.0.1:{BASE_PORT + 500 + i}"]
        log = open(f"{self.dir}/{index + 1}.log", "a", encoding="utf-8")
        return subprocess.Popen(args, stderr=log, stdout=log)

    def request(self, index, method, path, body=None, headers=None, timeout=10):
        connection = http.client.HTTPConnection("127.0.0.1", self.port(index), timeout=timeout)
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def wait_ready(self, index, limit_s=60):
        until = time.monotonic() + limit_s
        while time.monotonic() < until:
            try:
                if self.request(index, "GET", "/readyz", timeout=1)[0] == 200:
                    return
            except OSError:
                pass
            time.sleep(0.01)
        raise SystemExit(f"replica {index + 1} does not get ready; see {self.dir}")

    def leader(self):
        for i in range(self.count):
            status = json.loads(self.request(i, "GET", "/status/v1")[1])
            if status["role"] == "leader" and status["serving"]:
                return i
        return None

    def cpu_ms(self, only=None):
        pids = [process.pid for process in self.processes]
        return cpu_ms(pids if only is None else [pids[only]])

    def close(self):
        for process in self.processes:
            process.send_signal(signal.SIGTERM)
        for process in self.processes:
            process.wait(timeout=30)
        shutil.rmtree(self.dir)


def wrk(url, name, connections, args, cpu, scale=None):
    """Loads `url`; `cpu` returns the servers' CPU time in ms. Returns CPU ms per 1,000 requests."""
    before = cpu()
    out = subprocess.run(["wrk", "-t1", f"-c{connections}", f"-d{SECONDS}s", "--latency", *args, url],
                         check=True, capture_output=True, text=True).stdout
    spent = cpu() - before
    count = int(re.search(r"(\d+) requests in", out).group(1))
    rate = float(re.search(r"Requests/sec:\s*([\d.]+)", out).group(1))
    p50, p99 = (re.search(rf"{q}%\s+([\d.]+\w+)", out).group(1) for q in (50, 99))
    failed = re.search(r"Non-2xx or 3xx responses: (\d+)", out)
    each = spent * 1000 / count
    print(f"  {name:34} {rate:9.0f}/s  p50 {p50:>8}  p99 {p99:>8}  cpu {each:6.1f} ms/1000"
          + (f"  {each / scale:5.2f} x nginx" if scale else "")
          + (f"  FAILED {failed.group(1)}" if failed else ""), flush=True)
    return each


def nginx():
    """CPU per 1,000 static answers of 1 KiB, one worker; None when it is not installed."""
    program = shutil.which("nginx", path="/usr/sbin:/usr/bin")
    if not program:
        return None
    port = BASE_PORT - 1
    with tempfile.TemporaryDirectory(prefix="zabra-nginx-") as folder:
        with open(f"{folder}/k", "wb") as file:
            file.write(b"x" * 1024)
        with open(f"{folder}/conf", "w", encoding="ascii") as file:
            file.write(f"""daemon off; master_process off; pid {folder}/pid; error_log {folder}/error;
events {{ worker_connections 1024; }}
http {{ access_log off; keepalive_requests 100000000;
  client_body_temp_path {folder}/a; proxy_temp_path {folder}/b; fastcgi_temp_path {folder}/c;
  uwsgi_temp_path {folder}/d; scgi_temp_path {folder}/e; open_file_cache max=10;
  server {{ listen 127.0.0.1:{port}; root {folder}; }} }}
""")
        with subprocess.Popen([program, "-c", f"{folder}/conf", "-p", folder]) as server:
            until = time.monotonic() + 10
            while time.monotonic() < until:
                try:
                    socket.create_connection(("127.0.0.1", port)).close()
                    break
                except OSError:
                    time.sleep(0.01)
            each = wrk(f"http://127.0.0.1:{port}/k", "nginx, a static file of 1 KiB", 64, [],
                       lambda: cpu_ms([server.pid]))
            server.terminate()
    return each


def load_one(ensemble, lua):
    count = ensemble.count
    lead = ensemble.leader()
    other = (lead + 1) % count

    def run(index, name, connections, args, only=None, scale=None):
        url = f"http://127.0.0.1:{ensemble.port(index)}/znodes/v1/k"
        wrk(url, name, connections, args, lambda: ensemble.cpu_ms(only), scale)

    print(f"{count} replica(s), 1 KiB values", flush=True)
    scale = nginx()
    run(other, "raw read, 64 connections", 64, ["-H", "Accept: application/octet-stream"], other,
        scale)
    run(other, "JSON read, 64 connections", 64, [], other, scale)
    run(lead, "write, 64 connections, leader", 64, ["-s", lua])
    run(lead, "write, 1 connection, leader", 1, ["-s", lua])
    if count > 1:
        run(other, "write, 64 connections, follower", 64, ["-s", lua])
        run(other, "write, 1 connection, follower", 1, ["-s", lua])


def load(zabra):
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as lua:
        lua.write(PUT_LUA)
        lua.flush()
        for count in (1, 3):
            ensemble = Ensemble(zabra, count)
            ensemble.request(0, "PUT", "/znodes/v1/k?upsert=true", b"x" * 1024,
                             {"Content-Type": "application/octet-stream"})
            load_one(ensemble, lua.name)
            ensemble.close()


def resident_kib(process):
    with open(f"/proc/{process.pid}/status", encoding="ascii") as status:
        return int(re.search(r"RssAnon:\s+(\d+)", status.read()).group(1))


def million(zabra):
    ensemble = Ensemble(zabra, 1)
    empty = resident_kib(ensemble.processes[0])
    value = base64.b64encode(b"x" * 100).decode()
    begin = time.monotonic()
    for d in range(1000):
        ops = [{"op": "create", "path": f"/d{d:09d}", "data64": ""}]
        ops += [{"op": "create", "path": f"/d{d:09d}/n{i:09d}", "data64": value} for i in range(999)]
        status, body = ensemble.request(0, "POST", "/multi/v1", json.dumps({"ops": ops}),
                                        {"Content-Type": "application/json"}, timeout=60)
        if status != 200:
            raise SystemExit(body)
    print(f"1,000,000 znodes created in {time.monotonic() - begin:.1f} s (multi of 1,000)")
    filled = resident_kib(ensemble.processes[0])
    print(f"  resident beyond data, after the fill: {(filled - empty) * 1024 / 1e6 - 100:.0f} B/znode")
    ensemble.processes[0].send_signal(signal.SIGTERM)
    ensemble.processes[0].wait(timeout=60)
    begin = time.monotonic()
    ensemble.processes[0] = ensemble.start(0)
    ensemble.wait_ready(0)
    print(f"  restart until it serves: {time.monotonic() - begin:.2f} s")
    print("  resident beyond data, after the restart: "
          f"{(resident_kib(ensemble.processes[0]) - empty) * 1024 / 1e6 - 100:.0f} B/znode")
    for entry in os.scandir(f"{ensemble.dir}/1"):
        if entry.name.startswith("snap-"):
            print(f"  snapshot: {entry.stat().st_size / 1e6:.0f} MB")
    ensemble.close()


def gap(zabra, stop):
    """ms from `stop` of the leader to the next write that a follower acknowledges."""
    ensemble = Ensemble(zabra, 3)
    lead = ensemble.leader()
    other = (lead + 1) % 3
    headers = {"Content-Type": "application/octet-stream"}
    ensemble.request(other, "PUT", "/znodes/v1/k?upsert=true", b"x", headers)
    ensemble.processes[lead].send_signal(stop)
    begin = time.monotonic()
    while ensemble.request(other, "PUT", "/znodes/v1/k", b"y", headers)[0] != 200:
        pass
    spent = (time.monotonic() - begin) * 1000
    ensemble.processes[lead].send_signal(signal.SIGCONT)
    if stop == signal.SIGKILL:
        ensemble.processes[lead].wait()
        ensemble.processes[lead] = ensemble.start(lead)
    ensemble.wait_ready(lead)
    ensemble.close()
    return spent


def failover(zabra):
    times = [gap(zabra, signal.SIGKILL) for _ in range(10)]
    print(f"kill -9 of the leader to the next acknowledged write, 10 times: "
          f"median {statistics.median(times):.0f} ms, max {max(times):.0f} ms")


def pause(zabra):
    times = [gap(zabra, signal.SIGSTOP) for _ in range(10)]
    print(f"SIGSTOP of the leader to the next acknowledged write, 10 times: "
          f"median {statistics.median(times):.0f} ms, max {max(times):.0f} ms")


def main():
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    for name in sys.argv[2:] or ["load", "million", "failover", "pause"]:
        {"load": load, "million": million, "failover": failover, "pause": pause}[name](sys.argv[1])


if __name__ == "__main__":
    main()
