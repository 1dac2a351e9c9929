"""Slurm as an engine: nodes from scontrol, an allocation for the run, programs by srun."""
