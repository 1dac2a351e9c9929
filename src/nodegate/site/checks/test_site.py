"""Checks of this site. They run beside nodegate's own; a file of the same name takes the place of nodegate's file."""

import pytest

from nodegate import Verdicts
from nodegate.baseline.baseline import Baseline
from nodegate.probe.host import Host

pytestmark = pytest.mark.tier("nightly")


def test_kernel(host: Host, baseline: Baseline, verdicts: Verdicts) -> None:
    """The node runs the kernel that this site has released.

    An example to start from: it judges once baselines/site.yaml names the kernel. docs/adding-a-check.md says more.
    """
    verdicts.equal(
        subject="kernel",
        what="release",
        observed=host.kernel_release,
        expected=baseline.limit("site.kernel_release"),
        remedy="install the image that is released",
    )
