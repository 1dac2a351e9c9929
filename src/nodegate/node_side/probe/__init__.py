"""The node side of the probe; its modules import each other, under their own names, and nothing else of nodegate."""
