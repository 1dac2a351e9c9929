"""Notices: what a run found that is new, sent to where people read it."""
