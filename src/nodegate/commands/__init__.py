"""The commands beside pytest: a module each, with `add_arguments(parser)` and `run(asked)`: the exit code."""
