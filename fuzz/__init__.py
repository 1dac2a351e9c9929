"""Fuzzing of everything that reads what nodes, logs and users' files hold: see docs/evidence/fuzzing.md."""
