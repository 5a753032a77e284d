"""Spatial transformations, under the names of `scipy.spatial`."""

from . import transform as transform

__all__ = ["transform"]
