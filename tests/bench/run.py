"""Measures the agent beside nginx on this machine, in one interleaved run.

The gateway under test is pinned to one core; upstream (nginx with fixed answers) and load (wrk) share
the other. Each round measures every gateway once, so that a slow minute of the machine hits all of
them; figures are medians over the rounds, and what matters are the ratios to nginx. Rounds during
which other processes used more than a twentieth of a core are dropped.

Writes bench-results/agent.json and prints a Markdown table. BASELINE names an older binary that is
measured in the same rounds.
"""

import json
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = int(os.environ.get("ROUNDS", "5"))
SECONDS = int(os.environ.get("SECONDS_PER_RUN", "5"))
CONNECTIONS = 64
FRAMES = 64
GATEWAY_CORE, LOAD_CORE = "0", "1"
FOREIGN_CPU_LIMIT = float(os.environ.get("FOREIGN_CPU_LIMIT", "0.05"))
BINARY = Path(os.environ.get("LANEKEEPER", ROOT / "target/dist/lanekeeper"))
BASELINE = os.environ.get("BASELINE")
TICKS = os.sysconf("SC_CLK_TCK")

BODY = json.dumps({"model": "chat", "messages": [{"role": "user", "content": "Say something."}]})
STREAM_BODY = json.dumps({"model": "chat", "stream": True,
                          "messages": [{"role": "user", "content": "Say something."}]})
ANSWER = json.dumps({
    "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello there."},
                 "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}})


def frame(delta, finish=None):
    chunk = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m",
             "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
    return f"data: {json.dumps(chunk)}\n\n"


STREAM = (frame({"role": "assistant", "content": ""})
          + "".join(frame({"content": "word "}) for _ in range(FRAMES))
          + frame({}, "stop") + "data: [DONE]\n\n")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def nginx_text(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


NGINX = """
worker_processes 1; daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{ worker_connections 4096; }}
http {{
  access_log off; keepalive_requests 100000000; keepalive_timeout 75s; tcp_nodelay on;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  {http}
}}
"""


class Service:
    """A process (with its children) on one core."""

    running = []

    def __init__(self, core, command, port, environment=None):
        self.process = subprocess.Popen(
            ["taskset", "-c", core, *map(str, command)], stdout=subprocess.DEVNULL,
            env=environment)
        Service.running.append(self)
        deadline = time.monotonic() + 15
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                return
            except OSError:
                if time.monotonic() > deadline or self.process.poll() is not None:
                    sys.exit(f"{command[0]} does not listen on {port}")
                time.sleep(0.05)

    def pids(self):
        found = [self.process.pid]
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return found + [int(pid) for pid in children.read_text().split()]

    def cpu_seconds(self):
        total = 0
        for pid in self.pids():
            fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
            total += int(fields[11]) + int(fields[12])
        return total / TICKS

    def memory_mb(self, field):
        total = 0
        for pid in self.pids():
            match = re.search(rf"{field}:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
            total += int(match.group(1)) if match else 0
        return total / 1024

    def stop(self):
        Service.running.remove(self)
        self.process.terminate()
        self.process.wait()


def start_nginx(home, core, port, http):
    home.mkdir()
    config = home / "nginx.conf"
    config.write_text(NGINX.format(folder=home, http=http))
    return Service(core, ["nginx", "-p", home, "-c", config], port)


def start_upstream(folder, port):
    """An nginx on the load's core that answers any request the same way, at once."""
    folder.chmod(0o755)  # nginx's worker is another user
    (folder / "burst").write_text(STREAM)
    return start_nginx(folder / "upstream", LOAD_CORE, port, f"""
      server {{ listen 127.0.0.1:{port} backlog=1024;
        location /small {{ default_type application/json; return 200 {nginx_text(ANSWER)}; }}
        location /stream {{ error_page 404 405 =200 /burst; }}
        location = /burst {{ internal; root {folder}; default_type text/event-stream; }}
      }}""")


def document(case, upstream_port):
    """A gateway as a user would write it: a pool of two lanes with everything on."""
    provider = {"protocol": "openai", "api_key": None,
                "base_url": f"http://127.0.0.1:{upstream_port}/{case}"}
    return {
        "gateway": "bench",
        "providers": {"one": provider, "two": provider},
        "models": {"a": {"provider": "one"}, "b": {"provider": "two"}},
        "pools": {"chat": {"members": [{"target": "a"}, {"target": "b"}]}},
    }


def busy_seconds():
    fields = list(map(int, Path("/proc/stat").read_text().splitlines()[0].split()[1:9]))
    return (sum(fields) - fields[3] - fields[4]) / TICKS


UNITS = {"us": 1, "ms": 1000, "s": 1_000_000}


def load(folder, port, connections, body, services, path="/v1/chat/completions"):
    """One run of wrk: requests a second, latency, the CPU seconds of the services."""
    script = folder / "post.lua"
    script.write_text(
        'wrk.method = "POST"\nwrk.headers["content-type"] = "application/json"\n'
        f"wrk.body = {json.dumps(body)}\n")
    before, system = [service.cpu_seconds() for service in services], busy_seconds()
    started = resources()
    output = subprocess.run(
        ["taskset", "-c", LOAD_CORE, "wrk", "-t1", f"-c{connections}", f"-d{SECONDS}s", "--latency",
         "-s", script, f"http://127.0.0.1:{port}{path}"],
        capture_output=True, text=True, check=True).stdout
    used = [service.cpu_seconds() - start for service, start in zip(services, before)]
    wrk_used = resources() - started
    foreign = (busy_seconds() - system - sum(used) - wrk_used) / SECONDS
    if "Non-2xx" in output or "Socket errors" in output:
        sys.exit(f"the load saw errors:\n{output}")
    latency = {}
    for percent, value, unit in re.findall(r"(50|99)%\s+([\d.]+)(us|ms|s)", output):
        latency[percent] = float(value) * UNITS[unit]
    requests = int(re.search(r"(\d+) requests in", output).group(1))
    rate = float(re.search(r"Requests/sec:\s+([\d.]+)", output).group(1))
    return {"requests": requests, "rate": rate, "p50_us": latency["50"], "p99_us": latency["99"],
            "cpu_us": 1e6 * used[0] / requests, "foreign": foreign}


def resources():
    times = os.times()
    return times.children_user + times.children_system


def main():
    for program in ("nginx", "wrk", "taskset"):
        if not shutil.which(program):
            sys.exit(f"{program} is missing")
    if not BINARY.exists():
        sys.exit(f"{BINARY} is missing")
    folder = Path(tempfile.mkdtemp(prefix="lanekeeper-bench-"))
    upstream_port, nginx_port = free_port(), free_port()

    def nginx(name, core, port, http):
        return start_nginx(folder / name, core, port, http)

    def proxy(path):
        return f"""
      upstream lanes {{ server 127.0.0.1:{upstream_port}; server 127.0.0.1:{upstream_port}; keepalive 128; }}
      server {{ listen 127.0.0.1:{nginx_port} backlog=1024; client_max_body_size 32m;
        location / {{ proxy_pass http://lanes/{path}; proxy_http_version 1.1;
          proxy_set_header Connection ""; proxy_buffering off; }}
      }}"""

    def agent(binary, file):
        port, ops_port = free_port(), free_port()
        command = [binary, "agent", "--config", file, "--workers", "1", "--log", "warn",
                   f"--listen=127.0.0.1:{port}", f"--ops-listen=127.0.0.1:{ops_port}"]
        return Service(GATEWAY_CORE, command, port), port

    results = {}
    try:
        upstream = start_upstream(folder, upstream_port)
        for case, body in (("small", BODY), ("stream", STREAM_BODY)):
            file = folder / f"{case}.json"
            file.write_text(json.dumps(document(case, upstream_port)))
            gateways = {
                "nginx": (nginx(f"proxy-{case}", GATEWAY_CORE, nginx_port, proxy(case)), nginx_port),
                "lanekeeper": agent(BINARY, file),
            }
            if BASELINE:
                gateways["baseline"] = agent(BASELINE, file)
            idle = {name: service.memory_mb("VmRSS") for name, (service, _) in gateways.items()}
            rounds = []
            dropped = 0
            while len(rounds) < ROUNDS and dropped < 3 * ROUNDS:
                measured = {}
                for name, (service, port) in gateways.items():
                    services = [service, upstream]
                    measured[name] = {
                        "busy": load(folder, port, CONNECTIONS, body, services),
                        "single": load(folder, port, 1, body, services),
                    }
                # The upstream alone: what every gateway's latency is compared with.
                measured["direct"] = load(
                    folder, upstream_port, 1, body, [upstream], path=f"/{case}")
                worst = max(run["foreign"] for name in gateways for run in measured[name].values())
                if worst > FOREIGN_CPU_LIMIT:
                    dropped += 1
                    print(f"{case}: round dropped, other processes used {worst:.2f} cores",
                          file=sys.stderr)
                    continue
                rounds.append(measured)
                print(f"{case}: round {len(rounds)} of {ROUNDS}", file=sys.stderr)
            if not rounds:
                sys.exit("the machine is too busy to measure")
            results[case] = summary(rounds, gateways, idle, dropped)
            for service, _ in gateways.values():
                service.stop()
    finally:
        for service in list(Service.running):
            service.stop()
        shutil.rmtree(folder, ignore_errors=True)
    report(results)


def summary(rounds, gateways, idle, dropped):
    def median(pick):
        return statistics.median(pick(one) for one in rounds)

    result = {"rounds": len(rounds), "dropped": dropped, "gateways": {}}
    for name, (service, _) in gateways.items():
        result["gateways"][name] = {
            "requests_per_second": median(lambda one: one[name]["busy"]["rate"]),
            "cpu_us_per_request": median(lambda one: one[name]["busy"]["cpu_us"]),
            "added_p50_us": median(lambda one: one[name]["single"]["p50_us"] - one["direct"]["p50_us"]),
            "added_p99_us": median(lambda one: one[name]["single"]["p99_us"] - one["direct"]["p99_us"]),
            "busy_p99_us": median(lambda one: one[name]["busy"]["p99_us"]),
            "ratio_to_nginx": median(
                lambda one: one[name]["busy"]["rate"] / one["nginx"]["busy"]["rate"]),
            "cpu_ratio_to_nginx": median(
                lambda one: one[name]["busy"]["cpu_us"] / one["nginx"]["busy"]["cpu_us"]),
            "memory_idle_mb": idle[name],
            "memory_peak_mb": service.memory_mb("VmHWM"),
        }
    return result


def report(results):
    target = ROOT / "bench-results"
    target.mkdir(exist_ok=True)
    (target / "agent.json").write_text(json.dumps(results, indent=2) + "\n")
    lines = ["| case | gateway | requests/s | ratio | CPU us/request | CPU ratio | added p50 us "
             "| added p99 us | memory idle / peak MB |", "|---|---|---|---|---|---|---|---|---|"]
    for case, result in results.items():
        for name, row in result["gateways"].items():
            lines.append(
                f"| {case} | {name} | {row['requests_per_second']:.0f} | {row['ratio_to_nginx']:.2f} "
                f"| {row['cpu_us_per_request']:.1f} | {row['cpu_ratio_to_nginx']:.2f} "
                f"| {row['added_p50_us']:.0f} | {row['added_p99_us']:.0f} "
                f"| {row['memory_idle_mb']:.0f} / {row['memory_peak_mb']:.0f} |")
    table = "\n".join(lines)
    (target / "agent.md").write_text(table + "\n")
    print(table)


if __name__ == "__main__":
    main()
