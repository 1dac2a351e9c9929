"""Checks of this site. They run together with nodegate's own; a file of the same name replaces nodegate's."""

import pytest

from nodegate.api import Baseline, Host, Verdicts, part

pytestmark = pytest.mark.tier("nightly")


def test_kernel(host: Host, baseline: Baseline, verdicts: Verdicts) -> None:
    """The node runs the kernel that this site has approved.

    An example to start from: it judges once baselines/site.yaml names the kernel. See nodegate explain adding-a-check.
    """
    verdicts.equal(
        part=part.host("kernel"),
        quantity="release",
        observed=host.kernel_release,
        expected=baseline.limit("site.kernel_release"),
        action="install the image that is released",
    )
