from lab.told import told  # noqa: F401 - for all tests of the lab
