"""Clustering, under the names of `scipy.cluster`."""

from . import vq as vq

__all__ = ["vq"]
