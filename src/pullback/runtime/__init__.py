"""Arrays, memory, devices, and the evaluation of primitives."""
