"""deploy/prometheus: the alert rules are those of the tables, and the counters of RDMA ports reach node_exporter."""

import shutil
import subprocess
import sys
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
from job.sysfs import made_sys, node_exporter

from deploy.prometheus import alert_rules
from nodegate.job.finding import Class

DEPLOY = Path(__file__).parents[2] / "deploy" / "prometheus"
SCRIPT = DEPLOY / "rdma_counters.py"
COUNTERS = {"np_cnp_sent": "11", "rp_cnp_handled": "12", "roce_slow_restart": "13", "roce_slow_restart_cnps": "14",
            "roce_slow_restart_trans": "15", "out_of_sequence": "18446744073709551615", "lifespan": "10",
            "packet_seq_err": "not a number", "rnr_nak_retry_err": "-1"}  # fmt: skip
# the names of 1.11, written down here by hand
NAMED = {"np_cnp_packets_sent_total": 11, "rp_cnp_packets_handled_total": 12, "roce_slow_restart_used_total": 13,
         "roce_slow_restart_cnps_total": 14, "roce_slow_restart_total": 15,
         "out_of_sequence_packets_received_total": 18446744073709551615}  # fmt: skip


def test_the_rules_are_written_from_the_tables_and_promtool_takes_them():
    file = DEPLOY / "nodegate-job.rules.yml"
    assert file.read_text("utf-8") == alert_rules.text()
    told = {each["labels"]["nodegate_class"] for each in alert_rules.rules()}
    assert told == {each.value for each in Class} - {"healthy", "cannot-tell"}
    if shutil.which("promtool"):
        subprocess.run(["promtool", "check", "rules", file], check=True, capture_output=True)


def _script(file, sysfs, url):
    command = [sys.executable, str(SCRIPT), str(file), "--sys", str(sysfs), "--exporter", url]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)


@pytest.mark.skipif(shutil.which("prometheus-node-exporter") is None, reason="Debian's prometheus-node-exporter")
def test_counters_reach_a_real_node_exporter_under_the_names_of_1_11(tmp_path):
    sysfs, textfiles = made_sys(tmp_path / "sys", COUNTERS), tmp_path / "textfiles"
    textfiles.mkdir()
    with node_exporter(sysfs, textfiles) as url:
        assert _script(textfiles / "rdma.prom", sysfs, url).returncode == 0
        assert [each.name for each in textfiles.iterdir()] == ["rdma.prom"]
        with urllib.request.urlopen(url) as answer:  # noqa: S310 - loopback
            served = answer.read().decode()
    found = {line.split("{")[0]: float(line.split()[-1]) for line in served.splitlines()
             if 'device="mlx5_1"' in line}  # fmt: skip
    assert found["node_infiniband_port_data_transmitted_bytes_total"] == 4000
    mine = {name: found.get(f"node_infiniband_{name}") for name in NAMED}
    assert mine == {name: float(value) for name, value in NAMED.items()}
    assert "node_textfile_scrape_error 0" in served
    assert not [name for name in found if "lifespan" in name or "sequence_errors" in name or "rnr" in name]


@pytest.mark.parametrize(("version", "written", "code"), [
    ("1.5.0", True, 0), ("1.10.2", True, 0), ("1.11.0", False, 0), ("2.0.0", False, 0), ("", False, 1),
    ("not HTTP", False, 1),
])  # fmt: skip
def test_what_node_exporter_reads_itself_is_not_written_twice(tmp_path, version, *, written, code):
    """A stand-in tells another version: two sets of the same series would take all metrics of the node away."""

    class Exporter(BaseHTTPRequestHandler):
        def do_GET(self):
            if version == "not HTTP":
                self.wfile.write(b"SSH-2.0-OpenSSH\r\n")
                return
            self.send_response(200 if version else 500)
            self.end_headers()
            self.wfile.write(f'node_exporter_build_info{{branch="x",version="{version}"}} 1\n'.encode())

        def log_message(self, *_):
            pass

    file = tmp_path / "rdma.prom"
    file.write_text("of an hour ago\n")
    with HTTPServer(("127.0.0.1", 0), Exporter) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        done = _script(file, made_sys(tmp_path / "sys", COUNTERS), f"http://127.0.0.1:{server.server_port}/metrics")
        server.shutdown()
    assert (done.returncode, file.exists()) == (code, written)
    assert done.stderr == "" if code == 0 else "tells its version" in done.stderr
    if written:
        assert 'node_infiniband_rp_cnp_packets_handled_total{device="mlx5_0",port="1"} 12' in file.read_text()
