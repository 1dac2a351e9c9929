"""What a site asks of a node, as one file that the node's own checks read."""
