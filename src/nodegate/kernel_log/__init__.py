"""What the kernel log says: faults by device, events by cause, and errors that no rule knows. No I/O, no limits."""
