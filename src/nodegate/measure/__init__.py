"""What is measured under load: one module a measurement. It drives tools on nodes; it judges nothing."""
