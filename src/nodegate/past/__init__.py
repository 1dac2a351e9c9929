"""The fleet's record: what runs found and measured, over months, in one SQLite file next to the run folders."""
