"""Receives the webhooks of `specload canary` (docs/hooks.md), checks their signature, and prints each event once.

    HOOK_KEY="$(openssl rand -base64 32)" python examples/webhook/receive.py 8088

Any library of Standard Webhooks (standardwebhooks.com) does the same check.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

#: Seconds that a timestamp may be away from now: an old message cannot be sent again.
TOLERANCE_S = 300
KEY = base64.b64decode(os.environ["HOOK_KEY"].removeprefix("whsec_"))
seen: set[str] = set()


def genuine(headers: object, body: bytes) -> bool:
    get = headers.get  # type: ignore[attr-defined]
    event_id, stamp, signed = get("webhook-id", ""), get("webhook-timestamp", ""), get("webhook-signature", "")
    if not stamp.isdigit() or abs(time.time() - int(stamp)) > TOLERANCE_S:
        return False
    mac = hmac.digest(KEY, f"{event_id}.{stamp}.".encode() + body, hashlib.sha256)
    expected = "v1," + base64.b64encode(mac).decode()
    return any(hmac.compare_digest(expected, one) for one in signed.split(" "))


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        ok = genuine(self.headers, body)
        if ok and self.headers["webhook-id"] not in seen:  # a try whose answer got lost comes again, with the same id
            seen.add(self.headers["webhook-id"])
            data = json.loads(body)["data"]
            print(f"{data['scenario']}: {data['before']} -> {data['state']}, verdict {data['verdict']}", flush=True)
        self.send_response(204 if ok else 401)
        self.end_headers()

    def log_message(self, *args: object) -> None:
        pass


if __name__ == "__main__":
    server = HTTPServer(("127.0.0.1", int(sys.argv[1])), Receiver)
    print(f"http://127.0.0.1:{server.server_port}/", flush=True)
    server.serve_forever()
