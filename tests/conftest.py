"""What holds for every test.

A shell starts what runs in its background with SIGINT ignored, and so does everything that is started from there. Tests
press Ctrl-C in runs of their own: those must not inherit that.

Hypothesis measures how long an example takes by the clock on the wall, which says nothing on a machine that is busy.
"""

import signal

from hypothesis import HealthCheck, settings

signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("nodegate", settings(deadline=None, suppress_health_check=[HealthCheck.too_slow]))
settings.load_profile("nodegate")
