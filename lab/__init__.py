"""Virtual machines with their own kernel, kernel log, sshd and soft-RoCE, joined by a switch that can be broken."""
