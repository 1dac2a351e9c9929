"""Where the tools of a node are, and how they are brought."""
