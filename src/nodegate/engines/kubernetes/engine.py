"""Kubernetes as an engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodegate.engines.kubernetes.listing import listing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Kubernetes:
    """See `Engine`. The words of its source are those of a label selector: kubernetes:[pool=gpu,zone in (a,b)]."""

    def listing(self, asked: Sequence[str]) -> Mapping[str, object]:
        """See `Engine`."""
        return listing(",".join(asked))


ENGINE = Kubernetes()
