"""The certificate of a delivery: the paper that the parties sign, and its comparison with the run."""
