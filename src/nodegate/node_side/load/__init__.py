"""The node side of the measurements under load: it needs nothing but Python and the NVIDIA driver."""
