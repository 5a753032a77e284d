"""Lowering: one file per primitive family, from equations to index functions and statements."""
