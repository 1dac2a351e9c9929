"""A shell starts what runs in its background with SIGINT ignored, and so does everything that is started from there.

Tests press Ctrl-C in runs of their own: those must not inherit that.
"""

import signal

signal.signal(signal.SIGINT, signal.default_int_handler)
