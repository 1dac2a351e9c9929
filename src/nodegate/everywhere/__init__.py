"""One question to all nodes at once, equal answers folded: `nodegate exec`."""
