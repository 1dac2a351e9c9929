"""Named policies: what must hold for an acceptance, the classes of defects, and how much of the fleet may fail."""
