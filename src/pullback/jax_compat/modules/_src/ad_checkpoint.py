"""`jax._src.ad_checkpoint`: what `jax.ad_checkpoint` has, and the names beside it."""

from __future__ import annotations

from .... import checkpoint as checkpoint
from ....ad_checkpoint import *  # noqa: F403
from ....api.residuals import saved_residuals as saved_residuals
from ....control import remat_policies
from ....control.remat import name_p as name_p, remat_p as remat_p
from .searched import searched

remat = checkpoint
__getattr__ = searched("jax._src.ad_checkpoint", remat_policies)
