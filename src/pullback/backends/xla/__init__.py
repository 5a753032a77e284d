"""The second backend: programs as StableHLO, which jaxlib's XLA compiles.

jaxlib is an optional dependency (`pip install pullback[xla]`), loaded when something is lowered.
"""
