#!/usr/bin/env python3
"""Measures the control plane with simulated fleets and lays each figure beside its gate.

Server and swarm are processes of their own on one machine. The CPU of the server is read from the
kernel over a calm stretch, so whatever else the machine does makes times longer, not CPU shares.
Standard library only.
"""

import argparse
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
TICKS_PER_SEC = os.sysconf("SC_CLK_TCK")
CALM_SECS = 15
WATCHED_SECS = 20
VIEW_CALLS = 200
DIALS_PER_SEC = 1000


class Server:
    """`lanekeeper server` with embedded storage in a folder of its own."""

    def __init__(self, binary, folder, ports=(0, 0, 0)):
        self.binary, self.folder = binary, folder
        arguments = [binary, "--log=warn", "server", "--insecure", f"--data-dir={folder}/data",
                     f"--bootstrap-token-file={folder}/token"]
        arguments += [f"--{name}-listen=127.0.0.1:{port}"
                      for name, port in zip(("grpc", "http", "ops"), ports)]
        self.log = open(f"{folder}/server.log", "a")
        self.process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=self.log, text=True)
        self.addresses = {}
        while len(self.addresses) < 3:
            line = self.process.stdout.readline()
            if not line:
                sys.exit(f"the server does not start: {folder}/server.log")
            name, found, address = line.strip().partition(" listening on ")
            if found:
                self.addresses[name] = address
        self.token = pathlib.Path(f"{folder}/token").read_text().strip()

    def ports(self):
        return [self.addresses[name].rsplit(":", 1)[1] for name in ("grpc", "http", "ops")]

    def call(self, path, body=None, method="GET", headers=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://{self.addresses['http']}{path}", data, method=method)
        request.add_header("Authorization", f"Bearer {self.token}")
        request.add_header("Content-Type", "application/json")
        for name, value in (headers or {}).items():
            request.add_header(name, value)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read() or b"null")

    def memory_mb(self):
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
        return 0.0

    def cpu_secs(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS_PER_SEC

    def end(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        self.process.wait(30)


def document(cells, weight):
    """A gateway of `cells` cells: half of them direct routes, the others members of pools of ten."""
    lanes = max(1, cells // 2)
    return {
        "gateway": "edge",
        "providers": {f"provider-{number}": {"protocol": "openai", "api_key": None,
                                             "base_url": f"http://127.0.0.1:{9000 + number}"}
                      for number in range(10)},
        "models": {f"lane-{number:03}": {"provider": f"provider-{number % 10}"}
                   for number in range(lanes)},
        "pools": {f"pool-{pool:02}": {"members": [
            {"target": f"lane-{number:03}", "weight": weight}
            for number in range(pool * 10, min(pool * 10 + 10, lanes))]}
            for pool in range((lanes + 9) // 10)},
    }


def p99(values):
    return sorted(values)[min(len(values) - 1, int(len(values) * 0.99))] if values else None


class Watcher(threading.Thread):
    """Follows one cell and notes how old each agent's transition is when it is first seen."""

    def __init__(self, server, pool, lane):
        super().__init__(daemon=True)
        self.server, self.path = server, (
            f"/api/v1/breaker-state/stream?gateway=edge&pool={pool}&lane={lane}&detail=agents")
        self.seen, self.ages, self.over, self.counting = {}, [], False, False

    def run(self):
        request = urllib.request.Request(f"http://{self.server.addresses['http']}{self.path}")
        request.add_header("Authorization", f"Bearer {self.server.token}")
        try:
            with urllib.request.urlopen(request, timeout=30) as events:
                for line in events:
                    if self.over:
                        return
                    if line.startswith(b"data: {\"generated_at\""):
                        self.take(json.loads(line[6:]))
        except OSError:
            pass

    def take(self, view):
        for cell in view["cells"]:
            now = {}
            for agent in cell.get("by_agent") or []:
                now[agent["instance"]] = agent["state"]
                if self.counting and self.seen.get(agent["instance"]) != agent["state"] \
                        and agent["state"] in ("open", "half_open"):
                    self.ages.append(agent["age_secs"])
            self.seen = now


def cpu_share(server, seconds):
    """The share of one core that the server takes over some time."""
    cpu, began = server.cpu_secs(), time.monotonic()
    time.sleep(seconds)
    return (server.cpu_secs() - cpu) / (time.monotonic() - began)


def swarm(binary, server, agents, cells, seconds, *more):
    arguments = [binary, "--log=warn", "fleet-sim", "--insecure", "--json", "--gateway=edge",
                 f"--control-plane=http://{server.addresses['grpc']}", f"--agents={agents}",
                 f"--cells={cells}", f"--seconds={seconds}", *more]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)


def until(what, bound, check):
    end = time.monotonic() + bound
    while time.monotonic() < end:
        if check():
            return
        time.sleep(0.25)
    sys.exit(f"not within {bound} s: {what}")


def measure(binary, agents, cells):
    folder = tempfile.mkdtemp(prefix="lanekeeper-fleet-")
    server = Server(binary, folder)
    server.call("/admin/v1/gateways", document(cells, 1), "POST")
    idle_mb = server.memory_mb()
    dial_secs = agents // DIALS_PER_SEC + 1
    seconds = dial_secs + 15 + CALM_SECS + WATCHED_SECS + 15 + 10 + 50
    began = time.monotonic()
    process = swarm(binary, server, agents, cells, seconds, "--transition-secs=60",
                    f"--dials-per-sec={DIALS_PER_SEC}")

    refused = []

    def all_live():
        try:
            return server.call("/api/v1/summary")["agents"]["live"] == agents
        except urllib.error.HTTPError as error:
            refused.append(error.code)
            return False

    until("all agents live", dial_secs + 60, all_live)
    dialled_secs, dialling_cpu = time.monotonic() - began, server.cpu_secs()
    # Every agent has reported by its phase once, and nobody has looked for a while.
    time.sleep(16)
    calm_cpu = cpu_share(server, CALM_SECS)
    watcher = Watcher(server, "", "lane-000")
    watcher.start()
    time.sleep(2)
    watcher.counting = True
    watched_cpu = cpu_share(server, WATCHED_SECS)
    memory_mb = server.memory_mb()
    watcher.counting = False
    views = []
    for _ in range(VIEW_CALLS):
        start = time.monotonic()
        server.call("/api/v1/breaker-state?gateway=edge")
        views.append((time.monotonic() - start) * 1000)
    watcher.over = True

    committed_ms = time.time() * 1000
    server.call("/admin/v1/gateways/edge/config", document(cells, 2), "PUT", {"If-Match": '"1"'})
    time.sleep(8)
    pushed_mb = server.memory_mb()
    server.end(signal.SIGKILL)
    server = Server(binary, folder, server.ports())
    outcome = json.loads(process.communicate()[0])
    server.end()
    shutil.rmtree(folder, ignore_errors=True)
    pushed = next((it for it in outcome["revisions"] if it["revision"] == 2), None)
    spread = pushed["applied"]["p99_ms"] if pushed and pushed["applied"] else None
    acks = {phase: spread["p99_ms"] for phase, spread in outcome["ack_by_phase"].items()}
    return {
        "agents": agents,
        "cells": cells,
        "memory_mb": round(memory_mb, 1),
        "memory_per_session_kb": round((memory_mb - idle_mb) * 1024 / agents, 1),
        "memory_after_push_mb": round(pushed_mb, 1),
        "cpu_percent_of_a_core": round(watched_cpu * 100, 1),
        "calm_cpu_percent_of_a_core": round(calm_cpu * 100, 1),
        "dialling_cpu_secs": round(dialling_cpu, 1),
        "dialling_secs": round(dialled_secs, 1),
        "summaries_refused": len(refused),
        "reports_per_sec": round(agents / 10),
        "ack_p99_ms": acks.get("steady"),
        "ack_dialling_p99_ms": acks.get("dialling"),
        "ack_pushing_p99_ms": acks.get("pushing"),
        "ack_returning_p99_ms": acks.get("returning"),
        "transition_visible_p99_secs": p99(watcher.ages),
        "transitions_seen": len(watcher.ages),
        "commit_to_99_percent_applied_secs":
            round((pushed["first_unix_ms"] - committed_ms + spread) / 1000, 2) if spread else None,
        "push_bytes": outcome["push_bytes"],
        "sessions_back_max_secs":
            round(outcome["reconnect"]["max_ms"] / 1000, 1) if outcome["reconnect"] else None,
        "sessions_back": outcome["connected"],
        "breaker_state_p50_ms": round(sorted(views)[len(views) // 2], 1),
        "breaker_state_p99_ms": round(p99(views), 1),
        "errors_by_kind": outcome["errors_by_kind"],
    }


GATES = [
    ("memory_mb", "memory, MB", 1024),
    ("memory_after_push_mb", "memory after a push to all, MB", 1024),
    ("cpu_percent_of_a_core", "steady CPU with one reader of each agent's word, % of one core", 25),
    ("calm_cpu_percent_of_a_core", "steady CPU without a reader, % of one core", 25),
    ("ack_p99_ms", "acknowledgement p99 in steady state, ms", 250),
    ("ack_dialling_p99_ms", "acknowledgement p99 while all dial, ms", None),
    ("ack_pushing_p99_ms", "acknowledgement p99 while a revision spreads, ms", None),
    ("ack_returning_p99_ms", "acknowledgement p99 while all return, ms", None),
    ("dialling_cpu_secs", "CPU of dialling, s", None),
    ("transition_visible_p99_secs", "transition visible in the view p99, s", 2),
    ("commit_to_99_percent_applied_secs", "commit to 99 % applied, s", 5),
    ("sessions_back_max_secs", "all sessions back after kill -9, s", 45),
    ("breaker_state_p99_ms", "GET /api/v1/breaker-state p99, ms", 50),
    ("memory_per_session_kb", "memory per session, KiB", None),
    ("push_bytes", "push, bytes", None),
    ("summaries_refused", "`GET /api/v1/summary` refused while all dial", 0),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", default=str(ROOT / "target/dist/lanekeeper"))
    parser.add_argument("--agents", type=int, nargs="+", default=[1000, 10_000])
    parser.add_argument("--cells", type=int, default=500)
    parser.add_argument("--out", default=str(ROOT / "bench-results/fleet.json"))
    arguments = parser.parse_args()
    results = [measure(arguments.binary, agents, arguments.cells) for agents in arguments.agents]
    heads = [f"{result['agents']:,} agents" for result in results]
    print("| what | gate | " + " | ".join(heads) + " |")
    print("|---|---|" + "---|" * len(heads))
    for name, title, gate in GATES:
        figures = [result[name] for result in results]
        shown = ["-" if figure is None else f"{figure}" for figure in figures]
        if gate is not None:
            shown = [text if figure is not None and figure <= gate else f"**{text}**"
                     for text, figure in zip(shown, figures)]
        bound = "-" if gate is None else f"<= {gate}"
        print(f"| {title} | {bound} | " + " | ".join(shown) + " |")
    for result in results:
        if result["sessions_back"] != result["agents"]:
            print(f"only {result['sessions_back']} of {result['agents']} sessions came back")
    pathlib.Path(arguments.out).parent.mkdir(exist_ok=True)
    pathlib.Path(arguments.out).write_text(json.dumps(results, indent=2) + "\n")


main()
