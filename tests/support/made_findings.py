"""Findings and records made by hand, for tests of what is built from them."""

from nodegate.records import part
from nodegate.records.finding import AT_LEAST, Finding, Limit, Record
from nodegate.records.verdict import Verdict, worst

GPU3 = part.gpu(3, address="0000:3d:00.0", serial="1650003000003")
GPU4 = part.gpu(4, address="0000:9a:00.0", serial="1650003000004")
NIC2 = part.Part(part.Kind.NIC, "mlx5_2", pci="0000:3a:00.0", above=("0000:39:00.0",))


def finding(verdict, where=part.NODE, text="", **more):
    """A finding of one verdict on one part."""
    more.setdefault("action", f"fix {text or more.get('quantity', 'it')}" if verdict in ("fail", "warn") else "")
    return Finding(where, Verdict(verdict), text=text, **more)


def rate(verdict, where, observed, right, metric):
    """A measured rate, and the rate that its limit asks for."""
    limit = Limit(right, "Gb/s", "a test", AT_LEAST)
    name = metric.rpartition(".")[2]
    return finding(
        verdict,
        where,
        quantity=name,
        observed=observed,
        unit="Gb/s",
        limit=limit,
        metric=metric,
        share=observed / right,
    )


def record(check, *findings, node="gpu01", **more):
    """What one check says of a node."""
    return Record(node, check, worst(each.verdict for each in findings), tuple(findings), **more)
