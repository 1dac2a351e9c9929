from lab.fault_table import told  # noqa: F401 - for the tests on nodes of the lab
