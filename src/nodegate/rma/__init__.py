"""One archive about a node or a part, for its vendor: `nodegate rma`."""
