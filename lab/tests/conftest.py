"""For all tests of the lab; Ctrl-C is not ignored in what they start, also in the background of a shell."""

import signal

from lab.told import told  # noqa: F401

signal.signal(signal.SIGINT, signal.default_int_handler)
