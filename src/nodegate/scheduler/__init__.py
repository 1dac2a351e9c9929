"""Keeping nodes free of jobs while a run uses them, by the scheduler that hands them out."""
