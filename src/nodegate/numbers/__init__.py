"""How a measured number is judged: against its baseline, the fleet, the rest of its node, and its past."""
