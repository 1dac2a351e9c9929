"""What is measured under load: one folder per measurement. It runs tools on nodes; it judges nothing."""
