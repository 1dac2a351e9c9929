"""Node side of finding and bringing tools: Python 3.6+, standard library only, each file is a separate program."""
