"""Measures the agent beside other gateways on this machine, in interleaved rounds.

The gateway under test is pinned to one core; upstream (nginx with fixed answers) and load (wrk) share
the other. Each round measures every gateway once, so that a slow minute of the machine hits all of
them; figures are medians over the rounds, and what matters are the ratios to nginx of the same round.
Rounds during which other processes used more than a twentieth of a core are dropped.

A gateway that is not installed, does not start or answers with errors is reported as such.

Writes bench-results/agent.json and agent.md. In the environment:
  ROUNDS, SECONDS_PER_RUN    5 and 5 unless said otherwise
  STREAMS, FIRST_FRAMES      open streams (1000) and paced streams (100) of a gateway
  FOREIGN_CPU_LIMIT          cores (0.05)
  CASES, GATEWAYS            comma-separated; all unless said otherwise
  LANEKEEPER, BASELINE       the binary, and an older one that is measured in the same rounds
"""

import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

import gateways
import loads
from gateways import PEERS, lanekeeper, nginx
from services import (ALL_CORES, BINARY, BODY, LARGE_BODY, LOAD_CORE, ROOT, STREAM_BODY, Service,
                      Unavailable, start_paced_upstream, start_upstream)

ROUNDS = int(os.environ.get("ROUNDS", "5"))
SECONDS = int(os.environ.get("SECONDS_PER_RUN", "5"))
STREAMS = int(os.environ.get("STREAMS", "1000"))
FIRST_FRAMES = int(os.environ.get("FIRST_FRAMES", "100"))
FOREIGN_CPU_LIMIT = float(os.environ.get("FOREIGN_CPU_LIMIT", "0.05"))
CONNECTIONS = 64
BASELINE = os.environ.get("BASELINE")

STARTERS = {"nginx": nginx, "lanekeeper": lanekeeper(BINARY),
            **({"baseline": lanekeeper(BASELINE)} if BASELINE else {}), **PEERS}
# Name: body, an event stream comes back, one connection alone is measured too, cores of the gateway.
BUSY_CASES = {
    "small": (BODY, False, True, 1),
    "large": (LARGE_BODY, False, False, 1),
    "burst": (STREAM_BODY, True, True, 1),
    "two cores": (BODY, False, False, 2),
}
CASES = [*BUSY_CASES, "paced", "open streams"]


def chosen(variable, every):
    named = os.environ.get(variable)
    return [name for name in every if not named or name in named.split(",")]


def start_all(folder, ports, stream, cores, missing):
    """The gateways that start."""
    running = {}
    for name in chosen("GATEWAYS", STARTERS):
        home = folder / name
        home.mkdir()
        home.chmod(0o755)
        try:
            running[name] = gateways.start(name, STARTERS[name], home, ports, stream, cores)
        except Unavailable as problem:
            leave(missing, name, problem)
    return running


def leave(missing, name, problem):
    missing[name] = str(problem)
    print(f"{name}: {problem}", file=sys.stderr)
    if name in ("nginx", "lanekeeper", "baseline"):
        sys.exit(f"without {name} there is nothing to compare")


def give_up(running, missing, name, problem):
    running.pop(name).service.stop()
    leave(missing, name, problem)


def busy(case, folder):
    """A case of requests as fast as they go."""
    body, stream, single, cores = BUSY_CASES[case]
    shared = ALL_CORES if cores > 1 else LOAD_CORE
    upstream = start_upstream(folder, stream, shared)
    missing = {}
    running = start_all(folder, upstream.ports, stream, cores, missing)
    idle = {name: gateway.service.memory_mb("VmRSS") for name, gateway in running.items()}
    rounds, dropped = [], 0

    def run(port, connections, services):
        return loads.requests(folder, port, connections, body, services, SECONDS, shared)

    while len(rounds) < ROUNDS and dropped < 3 * ROUNDS:
        measured = {}
        for name, gateway in list(running.items()):
            services = [gateway.service, upstream]
            try:
                measured[name] = {"busy": run(gateway.port, CONNECTIONS, services)}
                if single:
                    measured[name]["single"] = run(gateway.port, 1, services)
            except Unavailable as problem:
                give_up(running, missing, name, problem)
        worst = max(one["foreign"] for name in running for one in measured[name].values())
        if worst > FOREIGN_CPU_LIMIT:
            dropped += 1
            print(f"{case}: round dropped, other processes used {worst:.2f} cores", file=sys.stderr)
            continue
        if single:
            # The upstream alone: what every gateway's latency is compared with.
            measured["direct"] = run(upstream.ports[0], 1, [upstream])
        rounds.append(measured)
        print(f"{case}: round {len(rounds)} of {ROUNDS}", file=sys.stderr)
    if not rounds:
        sys.exit("the machine is too busy to measure")
    result = {"rounds": len(rounds), "dropped": dropped, "missing": missing, "gateways": {}}
    for name, gateway in running.items():
        result["gateways"][name] = busy_row(rounds, name, single) | {
            "memory_idle_mb": idle[name], "memory_peak_mb": gateway.service.memory_mb("VmHWM")}
    return result


def busy_row(rounds, name, single):
    def median(pick):
        return statistics.median(pick(one) for one in rounds if name in one)

    def added(one, field):
        return one[name]["single"][field] - one["direct"][field]

    row = {
        "requests_per_second": median(lambda one: one[name]["busy"]["rate"]),
        "cpu_us_per_request": median(lambda one: one[name]["busy"]["cpu_us"]),
        "busy_p99_us": median(lambda one: one[name]["busy"]["p99_us"]),
        "ratio_to_nginx": median(lambda one: one[name]["busy"]["rate"] / one["nginx"]["busy"]["rate"]),
        "cpu_ratio_to_nginx": median(
            lambda one: one[name]["busy"]["cpu_us"] / one["nginx"]["busy"]["cpu_us"]),
    }
    if single:
        row["added_p50_us"] = median(lambda one: added(one, "p50_us"))
        row["added_p99_us"] = median(lambda one: added(one, "p99_us"))
    return row


def paced(_, folder):
    """What a gateway adds to the time to the first content of a stream that comes slowly."""
    upstream = start_paced_upstream(folder, words=5, latency_ms=5, interval_ms=5)
    missing = {}
    running = start_all(folder, upstream.ports, True, 1, missing)
    added = {name: [] for name in running}
    for number in range(ROUNDS):
        direct = statistics.median(loads.first_frame(upstream.ports[0], FIRST_FRAMES))
        for name, gateway in list(running.items()):
            try:
                taken = loads.first_frame(gateway.port, FIRST_FRAMES)
            except (OSError, Unavailable) as problem:
                give_up(running, missing, name, problem)
                continue
            added[name].append(statistics.median(taken) - direct)
        print(f"paced: round {number + 1} of {ROUNDS}", file=sys.stderr)
    return {"rounds": ROUNDS, "missing": missing, "gateways": {
        name: {"added_first_frame_us": statistics.median(added[name])} for name in running}}


def held(_, folder):
    """What one more open stream costs in memory."""
    upstream = start_paced_upstream(folder, words=600, latency_ms=0, interval_ms=1000)
    missing = {}
    result = {"streams": STREAMS, "missing": missing, "gateways": {}}
    for name in chosen("GATEWAYS", STARTERS):
        home = folder / name
        home.mkdir()
        home.chmod(0o755)
        try:
            service, port = STARTERS[name](home, upstream.ports, 1)
        except Unavailable as problem:
            leave(missing, name, problem)
            continue
        try:
            # A first stream loads what every later one shares.
            service.wait(lambda: close(loads.open_streams(port, 1, 2)), 30, f"{name} streams nothing")
            before = service.memory_kb("VmRSS")
            callers = loads.open_streams(port, STREAMS)
            time.sleep(1)
            grown = service.memory_kb("VmRSS") - before
            close(callers)
            result["gateways"][name] = {"kib_per_stream": grown / STREAMS}
        except (OSError, Unavailable) as problem:
            leave(missing, name, problem)
        service.stop()
        print(f"open streams: {name}", file=sys.stderr)
    return result


def close(callers):
    for caller in callers:
        caller.close()


COLUMNS = [
    ("small, requests/s", "small", "requests_per_second", "{:,.0f}"),
    ("ratio", "small", "ratio_to_nginx", "{:.2f}"),
    ("CPU us", "small", "cpu_us_per_request", "{:.1f}"),
    ("ratio", "small", "cpu_ratio_to_nginx", "{:.2f}"),
    ("added p50, p99 us", "small", ("added_p50_us", "added_p99_us"), "{:.0f}, {:.0f}"),
    ("64 KiB, CPU ratio", "large", "cpu_ratio_to_nginx", "{:.2f}"),
    ("burst, CPU ratio", "burst", "cpu_ratio_to_nginx", "{:.2f}"),
    ("two cores, ratio", "two cores", "ratio_to_nginx", "{:.2f}"),
    ("first content, added us", "paced", "added_first_frame_us", "{:.0f}"),
    ("memory idle / peak MB", "small", ("memory_idle_mb", "memory_peak_mb"), "{:.0f} / {:.0f}"),
    ("KiB a stream", "open streams", "kib_per_stream", "{:.1f}"),
]


def cell(results, name, case, fields, form):
    row = results.get(case, {}).get("gateways", {}).get(name)
    fields = (fields,) if isinstance(fields, str) else fields
    return form.format(*(row[field] for field in fields)) if row else "-"


def report(results):
    target = ROOT / "bench-results"
    target.mkdir(exist_ok=True)
    (target / "agent.json").write_text(json.dumps(results, indent=2) + "\n")
    columns = [column for column in COLUMNS if column[1] in results]
    lines = ["| gateway | " + " | ".join(column[0] for column in columns) + " |",
             "|---" * (len(columns) + 1) + "|"]
    for name in chosen("GATEWAYS", STARTERS):
        cells = [cell(results, name, *column[1:]) for column in columns]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    lines += ["", *(f"Not measured: {name} ({case}): {problem}" for case, result in results.items()
                    for name, problem in result["missing"].items())]
    text = "\n".join(lines).rstrip() + "\n"
    (target / "agent.md").write_text(text)
    print(text)


def main():
    for program in ("nginx", "wrk", "taskset"):
        if not shutil.which(program):
            sys.exit(f"{program} is missing")
    if not BINARY.exists():
        sys.exit(f"{BINARY} is missing")
    folder = Path(tempfile.mkdtemp(prefix="lanekeeper-bench-"))
    folder.chmod(0o755)  # nginx's worker is another user
    results = {}
    try:
        for case in chosen("CASES", CASES):
            home = folder / case.replace(" ", "-")
            home.mkdir()
            measure = {"paced": paced, "open streams": held}.get(case, busy)
            results[case] = measure(case, home)
            Service.stop_all()
            # What was measured so far is kept, whatever the next case does.
            report(results)
    finally:
        Service.stop_all()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
