"""Plays dcgm-exporter: `python exporter.py PORT FILE` serves what FILE says. It collects every 30 s, as that does.

FILE is JSON: [[name, labels, value, noise], ...]; it is read again at each scrape.
"""

import json
import random
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

COLLECT_S = 30


class Metrics(BaseHTTPRequestHandler):
    """/metrics."""

    def do_GET(self):
        """Answer a scrape."""
        lines, last = [], ""
        for name, labels, value, noise in json.loads(Path(sys.argv[2]).read_text("utf-8")):
            drawn = random.Random(f"{name}{labels}{time.time() // COLLECT_S}").gauss(0, 1)  # noqa: S311 - noise
            lines += [f"# HELP {name} as the driver says", f"# TYPE {name} gauge"] if name != last else []
            lines.append(f"{name}{labels} {value * (1 + noise * drawn):.6f}")
            last = name
        self.send_response(200)
        self.end_headers()
        self.wfile.write(("\n".join(lines) + "\n").encode())

    def log_message(self, *_):
        """Say nothing."""


ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Metrics).serve_forever()
