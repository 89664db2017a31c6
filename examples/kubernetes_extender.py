"""A scheduler extender of Kubernetes that asks `harmony serve` where the tasks of a job belong.

    python examples/kubernetes_extender.py

Pods are labelled harmony/job, harmony/model, harmony/role (worker or ps), harmony/workers and
harmony/ps. In the extender's configuration `prioritizeVerb` is "prioritize" and
`nodeCacheCapable` is true.
"""

import argparse
import json
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

parser = argparse.ArgumentParser(description="Scheduler extender of Kubernetes for Harmony")
parser.add_argument("--api", default="http://127.0.0.1:8001", help="address of `kubectl proxy`")
parser.add_argument("--harmony", default="http://127.0.0.1:8750", help="of `harmony serve`")
parser.add_argument("--secret-file", type=Path, default=Path("secret"))
parser.add_argument("--port", type=int, default=8760)
given = parser.parse_args()
try:
    secret = given.secret_file.read_text().strip()
except (OSError, UnicodeDecodeError) as error:
    parser.error(f"--secret-file {given.secret_file}: {error}")
if not secret:
    parser.error(f"--secret-file {given.secret_file} is empty")


def fetch(url: str, body: Any = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    headers = {"X-Harmony-Secret": secret} if data else {}
    with urlopen(Request(url, data, headers), timeout=10) as answer:  # noqa: S310
        return json.load(answer)


def priorities(pod: dict[str, Any], nodes: list[str]) -> list[dict[str, Any]]:
    """Score 10 for the node of the pod's task, 0 for the others; 0 for all if there is no room."""
    jobs: dict[str, dict[str, Any]] = {}
    for one in [*fetch(f"{given.api}/api/v1/pods?labelSelector=harmony/job")["items"], pod]:
        label = {name.removeprefix("harmony/"): v for name, v in one["metadata"]["labels"].items()}
        job = jobs.setdefault(label["job"], {"model": label["model"], "workers": [], "ps": []})
        job["count"] = {kind: int(label[kind]) for kind in ("workers", "ps")}
        if "nodeName" in one["spec"]:
            job["ps" if label["role"] == "ps" else "workers"].append(one["spec"]["nodeName"])
    own = jobs.pop(pod["metadata"]["labels"]["harmony/job"])
    running = [{**job, "count": {}} for job in jobs.values() if job["workers"]]
    placement = fetch(f"{given.harmony}/place", {"servers": nodes, "running": running, "job": own})
    role = "ps" if pod["metadata"]["labels"]["harmony/role"] == "ps" else "workers"
    return [{"host": name, "score": 10 * (name in placement.get(role, [])[:1])} for name in nodes]


class Extender(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        body = json.dumps(priorities(asked["pod"], asked["nodenames"])).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)


with HTTPServer(("127.0.0.1", given.port), Extender) as server:
    print(f"listening on {server.server_port}", flush=True)
    server.serve_forever()
