"""The processes of a bench: pinned to a core, watched for CPU time and memory, ended with the run."""

import http.client
import json
import os
import re
import socket
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BINARY = Path(os.environ.get("LANEKEEPER", ROOT / "target/dist/lanekeeper"))
GATEWAY_CORE, LOAD_CORE, ALL_CORES = "0", "1", "0,1"
FRAMES = 64
# Every caller shows it, also to gateways that ask for none.
KEY = "sk-bench-8c1f3a9d5e7b2046a1c3e5f7092b4d6e"
START_SECONDS = 15
TICKS = os.sysconf("SC_CLK_TCK")


def question(stream=False, padding=0):
    messages = [{"role": "user", "content": "Say something." + "x" * padding}]
    return json.dumps({"model": "chat", **({"stream": True} if stream else {}), "messages": messages})


BODY = question()
STREAM_BODY = question(stream=True)
LARGE_BODY = question(padding=64 * 1024)
ANSWER = json.dumps({
    "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello there."},
                 "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}})
MODELS = json.dumps({"object": "list", "data": [{"id": "chat", "object": "model", "created": 1,
                                                 "owned_by": "bench"}]})


def frame(delta, finish=None):
    chunk = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m",
             "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
    return f"data: {json.dumps(chunk)}\n\n"


STREAM = (frame({"role": "assistant", "content": ""})
          + "".join(frame({"content": "word "}) for _ in range(FRAMES))
          + frame({}, "stop") + "data: [DONE]\n\n")


class Unavailable(Exception):
    """A gateway that cannot be measured, and why."""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Service:
    """A process with its children on some cores."""

    running = []

    def __init__(self, core, command, port, environment=None, log=None, seconds=START_SECONDS):
        self.log = log
        with open(log or os.devnull, "ab") as out:
            self.process = subprocess.Popen(
                ["taskset", "-c", core, *map(str, command)], stdout=out,
                stderr=out if log else None, stdin=subprocess.DEVNULL,
                env={**os.environ, **environment} if environment else None)
        Service.running.append(self)
        self.wait(lambda: socket.create_connection(("127.0.0.1", port), timeout=1).close(),
                  seconds, f"{command[0]} does not listen on {port}")

    def wait(self, check, seconds, problem):
        """Until `check` raises nothing."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                return check()
            except (OSError, AssertionError, http.client.HTTPException, Unavailable) as error:
                if time.monotonic() > deadline or self.process.poll() is not None:
                    self.stop()
                    raise Unavailable(f"{problem}: {error}; {self.last_words()}") from error
                time.sleep(0.05)

    def last_words(self):
        if not self.log:
            return "no log"
        lines = Path(self.log).read_text(errors="replace").strip().splitlines()
        return lines[-1][:300] if lines else "it said nothing"

    def pids(self):
        found = [self.process.pid]
        for pid in found:
            for children in Path(f"/proc/{pid}/task").glob("*/children"):
                found += [int(child) for child in children.read_text().split()]
        return found

    def cpu_seconds(self):
        total = 0
        for pid in self.pids():
            fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
            total += int(fields[11]) + int(fields[12])
        return total / TICKS

    def memory_kb(self, field):
        total = 0
        for pid in self.pids():
            match = re.search(rf"{field}:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
            total += int(match.group(1)) if match else 0
        return total

    def memory_mb(self, field):
        return self.memory_kb(field) / 1024

    def stop(self):
        if self in Service.running:
            Service.running.remove(self)
        self.process.terminate()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    @classmethod
    def stop_all(cls):
        for service in list(cls.running):
            service.stop()


NGINX = """
worker_processes {workers}; daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{ worker_connections 8192; }}
http {{
  access_log off; keepalive_requests 100000000; keepalive_timeout 75s; tcp_nodelay on;
  client_max_body_size 32m; client_body_buffer_size 256k;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  {http}
}}
"""


def start_nginx(home, core, port, http, workers=1):
    home.mkdir()
    config = home / "nginx.conf"
    config.write_text(NGINX.format(folder=home, http=http, workers=workers))
    return Service(core, ["nginx", "-p", home, "-c", config], port)


def nginx_text(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


class Upstream:
    """A provider of fixed answers on the load's core, under two addresses for a pool of two."""

    def __init__(self, service, ports):
        self.services, self.ports = service, ports

    def cpu_seconds(self):
        return sum(service.cpu_seconds() for service in self.services)

    def stop(self):
        for service in self.services:
            service.stop()


def start_upstream(folder, stream, core=LOAD_CORE):
    """An nginx that answers any request the same way, at once."""
    folder.chmod(0o755)  # nginx's worker is another user
    (folder / "burst").write_text(STREAM)
    ports = free_port(), free_port()
    if stream:
        answer = f"""error_page 404 405 =200 /burst;
        location = /burst {{ internal; root {folder}; default_type text/event-stream; }}"""
    else:
        answer = f"""location / {{ default_type application/json; return 200 {nginx_text(ANSWER)}; }}"""
    service = start_nginx(folder / f"upstream-{ports[0]}", core, ports[0], f"""
      server {{ listen 127.0.0.1:{ports[0]} backlog=1024; listen 127.0.0.1:{ports[1]} backlog=1024;
        location = /health {{ return 200 ok; }}
        location = /v1/models {{ default_type application/json; return 200 {nginx_text(MODELS)}; }}
        {answer}
      }}""")
    return Upstream([service], ports)


def start_paced_upstream(folder, words, latency_ms, interval_ms):
    """A provider that takes its time: a pause before its headers and one before each frame. An nginx in
    front lists its model, which some gateways ask for."""
    ports, paced = (free_port(), free_port()), free_port()
    provider = Service(LOAD_CORE, [BINARY, "sim-provider", f"--listen=127.0.0.1:{paced}",
                                   "--log=error", f"--words={words}", f"--latency-ms={latency_ms}",
                                   f"--frame-interval-ms={interval_ms}"], paced)
    front = start_nginx(folder / "upstream", LOAD_CORE, ports[0], f"""
      upstream provider {{ server 127.0.0.1:{paced}; keepalive 2048; }}
      server {{ listen 127.0.0.1:{ports[0]} backlog=1024; listen 127.0.0.1:{ports[1]} backlog=1024;
        location = /health {{ return 200 ok; }}
        location = /v1/models {{ default_type application/json; return 200 {nginx_text(MODELS)}; }}
        location / {{ proxy_pass http://provider; proxy_http_version 1.1;
          proxy_set_header Connection ""; proxy_buffering off; }}
      }}""")
    return Upstream([front, provider], ports)
