"""The load on a gateway: as many requests as it can take (wrk), one paced stream after another, or many
streams that stay open."""

import json
import os
import re
import resource
import select
import socket
import subprocess
import time
from pathlib import Path

from services import KEY, LOAD_CORE, STREAM_BODY, TICKS, Unavailable

UNITS = {"us": 1, "ms": 1000, "s": 1_000_000, "m": 60_000_000}
# Longest wait for a frame of a stream.
FRAME_SECONDS = 30
# A delta with text in it.
CONTENT = re.compile(rb'"content":"[^"]')


def busy_seconds():
    fields = list(map(int, Path("/proc/stat").read_text().splitlines()[0].split()[1:9]))
    return (sum(fields) - fields[3] - fields[4]) / TICKS


def own_seconds():
    times = os.times()
    return times.children_user + times.children_system


def requests(folder, port, connections, body, services, seconds, core=LOAD_CORE):
    """One run of wrk: requests a second, latency, the CPU time of the first of the services, and what
    everything else on the machine used meanwhile."""
    script = folder / "post.lua"
    script.write_text(
        'wrk.method = "POST"\nwrk.headers["content-type"] = "application/json"\n'
        f'wrk.headers["authorization"] = "Bearer {KEY}"\nwrk.body = {json.dumps(body)}\n')
    before, system = [service.cpu_seconds() for service in services], busy_seconds()
    started = own_seconds()
    output = subprocess.run(
        ["taskset", "-c", core, "wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--latency", "--timeout", "30s",
         "-s", script, f"http://127.0.0.1:{port}/v1/chat/completions"],
        capture_output=True, text=True, check=True).stdout
    used = [service.cpu_seconds() - start for service, start in zip(services, before)]
    foreign = (busy_seconds() - system - sum(used) - (own_seconds() - started)) / seconds
    failed = re.search(r"(Non-2xx.*|Socket errors.*)", output)
    if failed:
        raise Unavailable(f"the load saw errors: {failed.group(1)}")
    count = int(re.search(r"(\d+) requests in", output).group(1))
    if not count:
        raise Unavailable("not one request was answered")
    latency = {}
    for percent, value, unit in re.findall(r"(50|99)%\s+([\d.]+)(us|ms|s|m)", output):
        latency[percent] = float(value) * UNITS[unit]
    rate = float(re.search(r"Requests/sec:\s+([\d.]+)", output).group(1))
    return {"requests": count, "rate": rate, "p50_us": latency["50"], "p99_us": latency["99"],
            "cpu_us": 1e6 * used[0] / count, "foreign": foreign}


def ask(port):
    """Sends the question for a stream on a new connection."""
    caller = socket.create_connection(("127.0.0.1", port), timeout=FRAME_SECONDS)
    caller.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    send(caller)
    return caller


def send(caller):
    caller.sendall((
        "POST /v1/chat/completions HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\n"
        f"authorization: Bearer {KEY}\r\ncontent-length: {len(STREAM_BODY)}\r\n\r\n{STREAM_BODY}"
    ).encode())


def first_frame(port, streams):
    """Microseconds from a request to its first content, one stream after another on one connection. Frames
    that only name a role do not count: a gateway may hold them until it knows that content follows."""
    taken = []
    caller = None
    for _ in range(streams):
        began = time.perf_counter()
        if caller is None:
            caller = ask(port)
            # The first request also pays for the connection.
            began = None
        else:
            send(caller)
        received = b""
        while not CONTENT.search(received):
            received += read(caller)
        if began is not None:
            taken.append(1e6 * (time.perf_counter() - began))
        while not received.endswith(b"0\r\n\r\n"):
            received += read(caller)
    caller.close()
    return taken


def read(caller):
    chunk = caller.recv(64 * 1024)
    if not chunk:
        raise Unavailable("the gateway closed a stream")
    return chunk


def open_streams(port, count, seconds=FRAME_SECONDS):
    """Opens so many streams and waits until each has its first frame."""
    raise_limit(count)
    waiting = {}
    done = []
    poll = select.poll()
    deadline = time.monotonic() + seconds + count / 50
    try:
        for _ in range(count):
            caller = ask(port)
            waiting[caller.fileno()] = (caller, b"")
            poll.register(caller, select.POLLIN)
            advance(poll, waiting, done, 0)
        while waiting:
            if time.monotonic() > deadline:
                raise Unavailable(f"{len(waiting)} of {count} streams never began")
            advance(poll, waiting, done, 1000)
    except (OSError, Unavailable):
        for caller in [caller for caller, _ in waiting.values()] + done:
            caller.close()
        raise
    return done


def advance(poll, waiting, done, timeout_ms):
    for descriptor, _ in poll.poll(timeout_ms):
        caller, received = waiting[descriptor]
        received += read(caller)
        if b"data:" in received:
            poll.unregister(descriptor)
            done.append(caller)
            del waiting[descriptor]
        else:
            waiting[descriptor] = (caller, received)


def raise_limit(count):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + 256
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard), hard))
