"""What a profile must have proven of a node before the node is accepted, in the words of an acceptance paper."""
