"""What the inventory says of a node: the table of its `nodegate_*` variables, and the kinds of their values."""
