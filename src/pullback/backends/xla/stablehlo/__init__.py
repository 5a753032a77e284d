"""The rules of this package's primitives: each file mirrors one of `primitives/` or `control/`."""
