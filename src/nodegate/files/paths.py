"""Where the suite is: in a site folder, next to src/ in a checkout, or in nodegate/suite/ once installed."""

from pathlib import Path

CHECKS, BASELINES, POLICIES = "checks", "baselines", "policies"
INVENTORY, REPORTS, DOCS = "inventory", "reports", "docs"
_PACKAGE = Path(__file__).parent.parent
_CHECKOUT = _PACKAGE.parent.parent


def suite_folder(name: str) -> Path:
    """The folder `checks`, `baselines`, `policies`, `inventory`, `reports` or `docs` that belongs to this installation.

    Raises:
        FileNotFoundError: the installation is damaged: neither a checkout nor a complete wheel.
    """
    for root in (_CHECKOUT, _PACKAGE / "suite"):
        if (root / "checks").is_dir() and (root / name).is_dir():
            return root / name
    raise FileNotFoundError(f"nodegate's folder {name}/ is missing next to {_PACKAGE}: install the package again")
