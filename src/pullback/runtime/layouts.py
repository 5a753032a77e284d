"""How an array's elements lie in memory: row by row, on this engine; programs that name layouts run
unchanged.
"""

from __future__ import annotations

from typing import Any

__all__ = ["Format", "Layout", "with_layout_constraint"]


class Layout:
    """The order of an array's axes in memory, from the slowest to the fastest.

    `major_to_minor`: the axes in that order. `tiling`: the sizes of tiles, for devices that store
    arrays in tiles. `sub_byte_element_size_in_bits`: of elements that are less than a byte.

    >>> pb.experimental.layout.Layout((0, 1))
    Layout(major_to_minor=(0, 1), tiling=None, sub_byte_element_size_in_bits=0)
    """

    AUTO: Any = None

    def __init__(
        self,
        major_to_minor: tuple[int, ...],
        tiling: tuple[tuple[int, ...], ...] | None = None,
        sub_byte_element_size_in_bits: int = 0,
    ) -> None:
        self.major_to_minor, self.tiling = tuple(major_to_minor), tiling
        self.sub_byte_element_size_in_bits = sub_byte_element_size_in_bits

    def _key(self) -> tuple[Any, ...]:
        return self.major_to_minor, self.tiling, self.sub_byte_element_size_in_bits

    def update(self, **kwargs: Any) -> Layout:
        """The same layout but for what the keywords, named as the parameters, say."""
        names = ("major_to_minor", "tiling", "sub_byte_element_size_in_bits")
        return Layout(**{**dict(zip(names, self._key(), strict=True)), **kwargs})

    def check_compatible_aval(self, aval_shape: tuple[int, ...]) -> None:
        """ValueError unless the layout is one of arrays of so many axes."""
        if len(self.major_to_minor) != len(aval_shape):
            raise ValueError(
                "Length of major_to_minor and the rank of the value should match. Got "
                f"major_to_minor={self.major_to_minor} and shape={aval_shape}"
            )

    def __repr__(self) -> str:
        order, tiling, bits = self._key()
        return (
            f"Layout(major_to_minor={order}, tiling={tiling}, sub_byte_element_size_in_bits={bits})"
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Layout) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())


class _Auto:
    def __repr__(self) -> str:
        return "AUTO"


Layout.AUTO = _Auto()


class Format:
    """A layout and a sharding.

    ValueError for a layout without the sharding that says where it is meant.

    >>> from pullback.experimental import layout
    >>> layout.Format().layout is None
    True
    """

    def __init__(self, layout: Any = None, sharding: Any = None) -> None:
        if isinstance(layout, Layout) and sharding is None:
            raise ValueError(
                f"Sharding has to be concrete when layout is of type {type(layout)}. Please pass a "
                "`jax.sharding.NamedSharding` or `jax.sharding.SingleDeviceSharding` to the "
                f"sharding argument. Got sharding {sharding}"
            )
        if not (layout is None or layout is Layout.AUTO or isinstance(layout, Layout)):
            raise TypeError(
                "Invalid value received for the layout argument. Expected values are `None`, "
                f"`Layout.AUTO` or an instance of `Layout`. Got {layout} of type {type(layout)}"
            )
        if not (sharding is None or hasattr(sharding, "shard_shape")):
            raise TypeError(
                "Invalid value received for the sharding argument. Expected values are `None` or "
                f"an instance of `jax.Sharding`. Got {sharding} of type {type(sharding)}"
            )
        self.layout, self.sharding = layout, sharding

    def __repr__(self) -> str:
        return f"Format(layout={self.layout}, sharding={self.sharding})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Format) and (self.layout, self.sharding) == (
            other.layout,
            other.sharding,
        )

    def __hash__(self) -> int:
        return hash((self.layout, self.sharding))


def with_layout_constraint(x: Any, layout: Layout) -> Any:
    """`x`, if the layout has as many axes as it; ValueError if not.

    CPUs keep arrays in row-major order, whatever the layout.

    >>> from pullback.experimental import layout
    >>> rows = layout.Layout(major_to_minor=(0, 1))
    >>> layout.with_layout_constraint(jnp.ones((2, 3)), rows).shape
    (2, 3)
    """
    layout.check_compatible_aval(x.shape)
    return x
