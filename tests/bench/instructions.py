"""Counts the agent's own instructions for one request, under callgrind.

Unlike time, the count hardly depends on what else the machine does, so small changes show. The
agent serves two runs of different length over one connection; the difference of their totals,
divided by the difference in requests, leaves out start and end. The kernel's share is not in it.

Writes bench-results/instructions.json and prints a Markdown table. With KEEP=folder the profiles
stay there, for callgrind_annotate (build with `--config 'profile.dist.strip="none"'` for names).
"""

import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from gateways import document
from services import BINARY, BODY, ROOT, STREAM_BODY, Service, free_port, start_upstream

SHORT, LONG = 200, 1200
START_SECONDS = 60


def count(folder, case, body, requests, ports):
    port, ops_port = free_port(), free_port()
    config, profile = folder / f"{case}.json", folder / f"{case}.{requests}.callgrind"
    config.write_text(json.dumps(document(ports)))
    agent = subprocess.Popen(
        ["valgrind", "--tool=callgrind", f"--callgrind-out-file={profile}", BINARY, "agent",
         "--config", config, "--workers", "1", "--log", "warn", f"--listen=127.0.0.1:{port}",
         f"--ops-listen=127.0.0.1:{ops_port}"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                if time.monotonic() > deadline or agent.poll() is not None:
                    sys.exit("the agent does not start under valgrind")
                time.sleep(0.1)
        caller = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        for _ in range(requests):
            caller.request("POST", "/v1/chat/completions", body,
                           {"content-type": "application/json"})
            answer = caller.getresponse()
            if answer.status != 200 or not answer.read():
                sys.exit(f"the agent answered {answer.status}")
        caller.close()
    finally:
        agent.terminate()
        agent.wait()
    return int(re.search(r"^summary: (\d+)", profile.read_text(), re.MULTILINE).group(1))


def main():
    for program in ("nginx", "valgrind"):
        if not shutil.which(program):
            sys.exit(f"{program} is missing")
    kept = os.environ.get("KEEP")
    folder = Path(kept or tempfile.mkdtemp(prefix="lanekeeper-instructions-"))
    folder.mkdir(exist_ok=True)
    results = {}
    try:
        folder.chmod(0o755)  # nginx's worker is another user
        for case, body in (("small", BODY), ("stream", STREAM_BODY)):
            ports = start_upstream(folder, case == "stream").ports
            short, long = (count(folder, case, body, n, ports) for n in (SHORT, LONG))
            results[case] = {"instructions_per_request": round((long - short) / (LONG - SHORT))}
    finally:
        Service.stop_all()
        if not kept:
            shutil.rmtree(folder, ignore_errors=True)
    target = ROOT / "bench-results"
    target.mkdir(exist_ok=True)
    (target / "instructions.json").write_text(json.dumps(results, indent=2) + "\n")
    print("| case | instructions a request |\n|---|---|")
    for case, result in results.items():
        print(f"| {case} | {result['instructions_per_request']:,} |")


main()
