"""Checks that no key is used twice: `debug_key_reuse(True)`, or the flag jax_debug_key_reuse.

A key is consumed when bits are drawn from it, or when it is split; what consumes it again raises
`errors.KeyReuseError`. Programs are checked when they are traced, loops as if they ran often.
`random.fold_in` and `random.key_data` consume nothing, and `random.clone` gives a key that may be
used once more. The flag makes calls slow: native calls stand back.
"""

from __future__ import annotations

__all__: list[str] = []
