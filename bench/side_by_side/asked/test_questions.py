"""The twelve questions of questions.sh by pytest-testinfra: a test each, as its users write them."""


def smi(host, field):
    return set(host.check_output(f"nvidia-smi --query-gpu={field} --format=csv,noheader,nounits").splitlines())


def test_gpus(host):
    assert len(host.check_output("nvidia-smi --query-gpu=uuid --format=csv,noheader").splitlines()) == 8


def test_driver(host):
    assert smi(host, "driver_version") == {"550.163.01"}


def test_persistence(host):
    assert smi(host, "persistence_mode") == {"Enabled"}


def test_ecc(host):
    assert smi(host, "ecc.mode.current") == {"Enabled"}


def test_ecc_uncorrected(host):
    assert smi(host, "ecc.errors.uncorrected.aggregate.total") == {"0"}


def test_pcie_width(host):
    assert smi(host, "pcie.link.width.current") == {"16"}


def test_temperature(host):
    assert max(map(int, smi(host, "temperature.gpu"))) <= 80


def test_remapped_rows(host):
    fields = "remapped_rows.pending,remapped_rows.failure"
    rows = host.check_output(f"nvidia-smi --query-remapped-rows={fields} --format=csv,noheader").splitlines()
    assert set(rows) == {"0, 0"}


def test_ports_active(host):
    states = host.check_output('cat "$NODEGATE_PROBE_ROOT"/sys/class/infiniband/*/ports/1/state').splitlines()
    assert states == ["4: ACTIVE"] * 8


def test_port_rate(host):
    rates = host.check_output('cat "$NODEGATE_PROBE_ROOT"/sys/class/infiniband/*/ports/1/rate').splitlines()
    assert set(rates) == {"400 Gb/sec (4X NDR)"}


def test_fabricmanager(host):
    assert host.check_output("systemctl is-active nvidia-fabricmanager") == "active"


def test_xid(host):
    assert "NVRM: Xid" not in host.check_output('cat "$NODEGATE_PROBE_ROOT"/var/log/kern.log')
