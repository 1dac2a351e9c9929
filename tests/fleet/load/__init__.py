"""What the programs of the measurements print on made-up nodes: healthy at first, then with the faults of a demo."""
