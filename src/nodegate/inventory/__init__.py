"""Who the nodes are: Ansible's YAML and INI inventories, plain lists and hostlists, as `Node` values."""
