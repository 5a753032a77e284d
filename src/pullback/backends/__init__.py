"""What runs programs: the native compiler, the NumPy reference, and XLA."""
