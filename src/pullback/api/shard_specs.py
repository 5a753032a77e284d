"""The specs of a `shard_map`'s arguments or results: one for each leaf, checked, by messages that
name the leaf's place and that of its spec.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator, Sequence
from typing import Any

from .. import tree
from ..control.shard_map import parts
from ..core.avals import typeof
from ..errors import DuplicateSpecError
from ..runtime.meshes import AxisType
from ..runtime.partition_spec import PartitionSpec
from ..tree.prefix import prefix_errors

__all__ = ["Specs", "check_explicit", "spec_of"]


def _is_spec(x: Any) -> bool:
    return isinstance(x, PartitionSpec)


def _is_spec_or_none(x: Any) -> bool:
    return isinstance(x, PartitionSpec) or x is None


class Specs:
    """What `in_specs` (or `out_specs`) says of each leaf of a structure.

    `each` has a spec for each leaf; it is None for an argument that the function has as it is, an
    array or any other object. TypeError for what is no spec, ValueError for what is no prefix
    of the structure, or names an axis that is not one of `sizes`.
    """

    def __init__(
        self, what: str, fun: Any, treedef: Any, prefix: Any, mesh: Any, sizes: dict[Any, int]
    ) -> None:
        self.what, self.treedef, self.prefix = what, treedef, prefix
        self.fun, self.mesh, self.sizes = fun, mesh, sizes
        self.name = getattr(fun, "__name__", str(fun))
        # An argument's None stands for what is no array of the program; a result's is a structure.
        self.is_leaf = _is_spec_or_none if what == "in_specs" else _is_spec
        self._owners: list[int] = []
        self.each = self._spread()
        self._check_names()

    def _spread(self) -> list[PartitionSpec | None]:
        if self.is_leaf(self.prefix):
            self._owners = [0] * self.treedef.num_leaves
            return [self.prefix] * self.treedef.num_leaves
        for path, spec in self._entries():
            if not _is_spec_or_none(spec):
                raise TypeError(
                    f"shard_map {self.what} argument must be a pytree of `jax.sharding."
                    f"PartitionSpec` instances, but:\n\n  {self.what}{path} is {spec!r} of type "
                    f"{type(spec).__name__}.\n\nFix: P(...) in its place."
                )
        whole = tree.unflatten(self.treedef, range(self.treedef.num_leaves))
        for make in prefix_errors(self.prefix, whole, self.is_leaf):
            raise make(f"shard_map {self.what}") from None
        found: list[PartitionSpec | None] = []
        number = iter(range(self.treedef.num_leaves + 1))

        def extend(spec: Any, part: Any) -> None:
            count, k = len(tree.leaves(part)), next(number)
            found.extend([spec] * count)
            self._owners.extend([k] * count)

        tree.tree_map(extend, self.prefix, whole, is_leaf=self.is_leaf)
        return found

    def _entries(self) -> list[tuple[str, Any]]:
        """The specs that were given, with their places in what was given."""
        found, _ = tree.flatten_with_path(self.prefix, is_leaf=self.is_leaf)
        return [(tree.keystr(path), spec) for path, spec in found]

    def _spec_place(self, k: int) -> str:
        """The place of the spec of leaf k."""
        return f"{self.what}{self._entries()[self._owners[k]][0]}"

    def _place(self, k: int) -> tuple[str, str]:
        """The place of leaf k, among the arguments or in the result; and the parameter that has the
        argument."""
        whole = tree.unflatten(self.treedef, range(self.treedef.num_leaves))
        path = tree.flatten_with_path(whole)[0][k][0]
        if self.what == "out_specs":
            return f"{self.name}(*args){tree.keystr(path)}", ""
        names, n = _parameters(self.fun), path[0].idx
        bound = (
            f", where args[{n}] is bound to {self.name}'s parameter {names[n]!r}"
            if n < len(names)
            else ""
        )
        return f"the passed args{tree.keystr(path)}", bound

    def _check_names(self) -> None:
        """ValueError if a spec names what is no axis of the mesh, DuplicateSpecError if it names
        one twice."""
        for spec in self.each:
            if spec is None:
                continue
            self._check_sums(spec)
            names = [n for part in parts(spec, len(spec)) for n in part]
            for name in names:
                if name not in self.sizes:
                    raise ValueError(
                        f"shard_map {self.what} argument must refer to an axis marked as manual "
                        f"({list(self.sizes)}), but {self.what} refers to {name!r} in {spec}."
                    )
                if names.count(name) > 1:
                    raise DuplicateSpecError(
                        f"shard_map {self.what} {spec} has duplicate entries for `{name}`: an axis "
                        "of the mesh can map to at most one positional dimension of an array."
                    )

    def _check_sums(self, spec: PartitionSpec) -> None:
        """Sums that are still to come are said of axes of explicit type alone."""
        for kind in ("unreduced", "reduced"):
            if not getattr(spec, kind):
                continue
            if set(self.mesh.axis_names) != set(self.sizes):
                raise NotImplementedError(
                    f"unreduced/reduced can only be passed to {self.what} when shard_map is in "
                    f"full manual mode. Got mesh axis names {self.mesh.axis_names}, manual_axes: "
                    f"{frozenset(self.sizes)}, specs: {spec}. Fix: leave out axis_names."
                )
            if any(t is AxisType.Auto for t in self.mesh.axis_types):
                raise ValueError(
                    f"{kind} in {self.what} {spec} can only be used when the mesh passed to "
                    f"shard_map contains axis names all of type `Explicit`. Got mesh {self.mesh}"
                )

    def check_rank(self, k: int, aval: Any) -> None:
        """ValueError if the spec of leaf k has more entries than the leaf has axes."""
        spec, shape = self.each[k], aval.shape
        if spec is None or len(spec) <= len(shape):
            return
        side = "input" if self.what == "in_specs" else "output"
        scalar = (
            f" Either revise the spec to be shorter, or modify {self.name!r} so that its inputs "
            "have sufficient rank; for scalar values consider using an in_specs entry of `P()`, "
            "which says that the value is not cut."
            if side == "input" and not shape
            else ""
        )
        raise ValueError(
            f"shard_map applied to the function {self.name!r} was given an {self.what} entry which "
            f"is too long to be compatible with the corresponding {side} value from the "
            f"function:\n\n{self._spec_place(k)} is {spec} which has length {len(spec)}, but "
            f"{''.join(self._place(k))} has shape {aval.str_short()}, which has rank {len(shape)} "
            f"(and {len(shape)} < {len(spec)})\n\nFix: one entry an axis; add an axis to scalars "
            f"with x[None].{scalar}"
        )

    def check_cut(self, avals: Sequence[Any]) -> None:
        """ValueError if arrays cannot be cut into the blocks that their specs say."""
        cut = [(k, aval) for k, aval in enumerate(avals) if self.each[k] is not None]
        for k, aval in cut:
            self.check_rank(k, aval)
        uneven = [text for k, aval in cut for text in self._uneven(k, aval)]
        if not uneven:
            return
        told = "\n\n".join(uneven if len(uneven) == 1 else [f"* {text}" for text in uneven])
        raise ValueError(
            f"shard_map applied to the function {self.name!r} was given argument arrays with axis "
            "sizes that are not evenly divisible by the corresponding mesh axis sizes:\n\nThe mesh "
            f"given has shape {self.mesh.axis_sizes} with corresponding axis names "
            f"{self.mesh.axis_names}.\n\n{told}\n\nFix: other {self.what}, another mesh, or pad "
            "the arrays."
        )

    def _uneven(self, k: int, aval: Any) -> Iterator[str]:
        for axis, (n, names) in enumerate(
            zip(aval.shape, parts(self.each[k], len(aval.shape)), strict=True)
        ):
            blocks = math.prod([self.sizes[name] for name in names])
            if n % blocks:
                over = (
                    f"mesh axis {names[0]!r} (of size {blocks})"
                    if len(names) == 1
                    else f"mesh axes {names} (of total size {blocks})"
                )
                where, bound = self._place(k)
                yield (
                    f"{where} of shape {aval.str_short()}{bound and bound + ','} corresponds to "
                    f"{self._spec_place(k)} of value {self.each[k]}, which maps array axis {axis} "
                    f"(of size {n}) to {over}, but {blocks} does not evenly divide {n}"
                )

    def check_lying(self, avals: Sequence[Any]) -> None:
        """ValueError if an array whose type says how it lies over axes that become manual is cut in
        another way."""
        if set(self.mesh.explicit_axes) - set(self.sizes):
            return
        for aval, spec in zip(avals, self.each, strict=True):
            lies = getattr(aval, "_sharding", None)
            if lies is None or spec is None:
                continue
            have = [tuple(n for n in p if n in self.sizes) for p in parts(lies.spec, aval.ndim)]
            differs = any(have) and have != parts(spec, aval.ndim)
            if differs or lies.spec.unreduced & set(self.sizes) != spec.unreduced:
                raise ValueError(
                    f"in_specs passed to shard_map: {spec} does not match the specs of the input: "
                    f"{lies.spec} for arg: {aval.str_short()}. `in_specs` is an optional argument "
                    "so you can omit specifying it. Fix: leave it out, or jax.reshard the array "
                    "first."
                )


def _parameters(fun: Any) -> list[str]:
    """The names of a function's positional parameters, as far as they can be known."""
    try:
        found = inspect.signature(fun).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p.name for p in found if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


def check_explicit(mesh: Any, names: Any) -> None:
    """TypeError unless arguments say how they lie on these axes."""
    kinds = dict(zip(mesh.axis_names, mesh.axis_types, strict=True))
    if any(kinds[n] is not AxisType.Explicit for n in names):
        raise TypeError(
            "shard_map in_specs argument must be a pytree of `jax.sharding.PartitionSpec` "
            f"instances, but it was `None` when axis_names={frozenset(names)} are of type "
            f"{', '.join(str(kinds[n]) for n in names)}. Fix: give in_specs."
        )


def spec_of(x: Any, sizes: dict[Any, int]) -> PartitionSpec:
    """How an argument lies over the axes that become manual."""
    lies = typeof(x).sharding.spec
    cut = [tuple(n for n in names if n in sizes) for names in parts(lies, typeof(x).ndim)]
    sums = (frozenset(n for n in names if n in sizes) for names in (lies.unreduced, lies.reduced))
    unreduced, reduced = sums
    return PartitionSpec(*cut, unreduced=unreduced, reduced=reduced)
