"""What ended a job: its logs and the kernel logs of its nodes, read to the first error, its node and its class."""
