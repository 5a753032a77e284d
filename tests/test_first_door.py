"""The first operation of a process finds every feature as later ones do: what a process has met
before (a type that lies on a mesh, a program that names a sharding) changes no result."""

from __future__ import annotations

from pathlib import Path

import eight_devices

PROGRAM = str(Path(__file__).parent / "data" / "first_door.py")


def test_the_first_operation_is_as_later_ones() -> None:
    eight_devices.run(PROGRAM)
