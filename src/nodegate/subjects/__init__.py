"""What the checks of one subject share: how facts are put together before they are judged. No I/O, no limits."""
