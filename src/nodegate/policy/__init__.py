"""Named policies: what must hold for an acceptance, of which class a defect is, and how much of the fleet may fail."""
