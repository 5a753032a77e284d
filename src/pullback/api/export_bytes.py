"""Exported programs as bytes: a header, then a compressed JSON document of plain data.

Programs are lists of equations over numbered variables; primitives are found again by their names
and modules. Reading runs no code of the file.
"""

from __future__ import annotations

import base64
import enum
import importlib
import json
import sys
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import dtypes
from ..control.call import UNSPECIFIED, UnspecifiedValue, call_params, jit_p
from ..control.expand import expand
from ..control.refs import discharge
from ..core.avals import ShapedArray
from ..core.dim_text import SymbolicScope, symbolic_shape
from ..core.dims import DimExpr
from ..core.jaxpr import ClosedJaxpr, DebugInfo, DropVar, Jaxpr, JaxprEqn, Literal, Var
from ..core.primitive import Primitive
from ..core.refs import holds_refs, is_ref_aval
from ..primitives.keys import KeyDType, PRNGImpl, PRNGKeyArray, find_impl
from ..runtime.array import ArrayImpl
from ..runtime.dispatch import to_array
from ..runtime.meshes import AbstractMesh, AxisType, Mesh
from ..runtime.partition_spec import PartitionSpec
from ..runtime.shardings import NamedSharding, Sharding
from .export_trees import read_tree, write_tree
from .exported import DisabledSafetyCheck, Exported

_CONTAINERS = {cls.__name__: cls for cls in (tuple, list, dict)}  # as which results come
MAGIC = b"pullback exported 2\n"


def dumps(exported: Exported, vjp_order: int) -> bytes:
    """An exported program as bytes, with so many derivatives."""
    writer = Writer()
    levels = [exported]
    for _ in range(max(int(vjp_order), 0)):
        levels.append(levels[-1].vjp())
    data = {
        "scopes": writer.scopes,
        "levels": [_fields(e, writer) for e in levels],
        "programs": writer.programs,
    }
    return MAGIC + zlib.compress(json.dumps(data, separators=(",", ":")).encode())


def _fields(e: Exported, writer: Writer) -> dict[str, Any]:
    return {
        "closed": writer.value(without_refs(expand(e._closed))),
        "in_tree": write_tree(e.in_tree.node),
        "out_tree": write_tree(e.out_tree.node),
        "in_avals": writer.value(e.in_avals),
        "out_avals": writer.value(e.out_avals),
        "fun_name": e.fun_name,
        "platforms": list(e.platforms),
        "disabled": [check._impl for check in e.disabled_safety_checks],
        "devices": e.nr_devices,
        "in_shardings": writer.value(e._in_named_shardings),
        "out_shardings": writer.value(e._out_named_shardings),
    }


def without_refs(closed: ClosedJaxpr) -> ClosedJaxpr:
    """A program that mentions no references of its own: in files they are values."""
    if any(
        holds_refs(e.primitive, e.params) or any(is_ref_aval(v.aval) for v in e.outvars)
        for e in closed.jaxpr.eqns
    ):
        return discharge(closed)[0]
    return closed


def loads(blob: Any) -> Exported:
    """The inverse of `dumps`. ValueError for other bytes."""
    if not isinstance(blob, (bytes, bytearray, memoryview)):
        raise TypeError(
            f"deserialize takes the bytes that Exported.serialize gave, got {type(blob)}."
        )
    blob = bytes(blob)
    if not blob.startswith(MAGIC):
        raise ValueError(
            "deserialize: these bytes are no program that Exported.serialize of this package "
            "wrote. Fix: export and serialize the function again."
        )
    try:
        data = json.loads(zlib.decompress(blob[len(MAGIC) :]))
    except (zlib.error, ValueError) as e:
        raise ValueError(f"deserialize: the bytes are damaged ({e}).") from None
    reader = Reader(data)
    following: Exported | None = None
    for fields in reversed(data["levels"]):
        after = following
        following = Exported(
            reader.value(fields["closed"]),
            read_tree(fields["in_tree"]),
            read_tree(fields["out_tree"]),
            reader.value(fields["in_avals"]),
            reader.value(fields["out_avals"]),
            fun_name=fields["fun_name"],
            platforms=fields["platforms"],
            disabled_safety_checks=[DisabledSafetyCheck(c) for c in fields["disabled"]],
            shardings=(reader.value(fields["in_shardings"]), reader.value(fields["out_shardings"])),
            nr_devices=fields["devices"],
            get_vjp=None if after is None else _giving(after),
        )
    assert following is not None
    return following


def _giving(following: Exported) -> Callable[[Exported], Exported]:
    return lambda _: following


def _modules() -> list[tuple[str, Any]]:
    found = list(sys.modules.items())
    return [(n, m) for n, m in found if n.startswith(("pullback.primitives.", "pullback.control."))]


class Writer:
    """Values as JSON: what is no number, text or truth is a list that begins with its kind."""

    def __init__(self) -> None:
        self.programs: list[Any] = []
        self.numbers: dict[int, tuple[Any, int]] = {}  # of programs, by identity
        self.scopes: list[list[str]] = []
        self.known: list[Any] = []
        self.places: dict[Any, str] = {}  # the modules of primitives and classes

    def value(self, x: Any) -> Any:
        if x is None or isinstance(x, (bool, str)) or type(x) in (int, float):
            return x
        if type(x) in (tuple, list):
            return ["tuple" if type(x) is tuple else "list", *map(self.value, x)]
        if type(x) is dict:
            return ["dict", *([self.value(k), self.value(v)] for k, v in x.items())]
        if isinstance(x, (ClosedJaxpr, Jaxpr)):
            return self.program(x)
        if isinstance(x, ShapedArray) and type(x) is ShapedArray:
            said = [] if x._sharding is None else [self.value(x._sharding)]
            return ["aval", self.value(x.shape), self.value(x.dtype), bool(x.weak_type), *said]
        if isinstance(x, DimExpr):
            return ["dim", self.scope(x.scope), str(x)]
        if isinstance(x, KeyDType):
            return ["key", x.impl.name]
        if isinstance(x, PRNGImpl):
            return ["impl", x.name]
        if isinstance(x, np.dtype):
            return ["float0"] if x == dtypes.float0 else ["dtype", x.name]
        if isinstance(x, (np.ndarray, np.generic, ArrayImpl)):
            return self.array(x)
        if isinstance(x, NamedSharding):
            return ["named", self.value(x.mesh), self.value(x.spec), x.memory_kind]
        if isinstance(x, UnspecifiedValue) or isinstance(x, Sharding):
            return ["unspecified"]  # all devices that programs are read for share one memory
        if isinstance(x, (Mesh, AbstractMesh)):
            types = [t.name for t in x.axis_types]
            return ["mesh", list(x.axis_sizes), list(map(self.value, x.axis_names)), types]
        if isinstance(x, PartitionSpec):
            parts = ["free" if p is PartitionSpec.UNCONSTRAINED else [self.value(p)] for p in x]
            sums = [list(map(self.value, names)) for names in (x.unreduced, x.reduced)]
            return ["spec", parts, *sums]
        return self.object(x)

    def object(self, x: Any) -> Any:
        cls = type(x)
        if isinstance(x, PRNGKeyArray):
            return ["keys", x._impl.name, self.array(x._base_array)]
        if x in _CONTAINERS.values():
            return ["container", x.__name__]
        if isinstance(x, complex):
            return ["complex", x.real, x.imag]
        if isinstance(x, (set, frozenset)):
            return ["frozenset", *map(self.value, x)]
        if not cls.__module__.startswith("pullback."):
            raise ValueError(
                f"Cannot serialize a program with the parameter {x!r} of the type {cls}. Fix: use "
                "operations whose parameters are data."
            )
        if isinstance(x, enum.Enum):
            return ["enum", cls.__module__, cls.__qualname__, x.name]
        names: Any = getattr(cls, "__annotations__", None) or getattr(x, "_fields", ())
        names = [n for n in (*names,) or cls.__slots__ if not n.startswith("__")]
        fields = [[n, self.value(getattr(x, n))] for n in names]
        return ["object", cls.__module__, cls.__qualname__, *fields]

    def array(self, x: Any) -> Any:
        host = np.asarray(x)
        kind = "scalar" if isinstance(x, np.generic) else "array"
        data = base64.b64encode(np.ascontiguousarray(host).tobytes()).decode()
        return [kind, host.dtype.name, list(host.shape), data]

    def scope(self, scope: Any) -> int:
        for k, known in enumerate(self.known):
            if known is scope:
                return k
        self.known.append(scope)
        self.scopes.append(list(getattr(scope, "_text", ())))
        return len(self.known) - 1

    def program(self, x: ClosedJaxpr | Jaxpr) -> Any:
        """The number of a program, which is written once."""
        if id(x) not in self.numbers:
            closed = x if isinstance(x, ClosedJaxpr) else ClosedJaxpr(x, [None] * len(x.constvars))
            self.programs.append(self.body(closed))
            self.numbers[id(x)] = x, len(self.programs) - 1
        return ["closed" if isinstance(x, ClosedJaxpr) else "open", self.numbers[id(x)][1]]

    def body(self, closed: ClosedJaxpr) -> Any:
        jaxpr = closed.jaxpr
        places: dict[Any, int] = {}
        avals: list[Any] = []

        def atom(v: Any) -> Any:
            if type(v) is Literal:
                return [self.value(v.val), self.value(v.aval)]
            if v not in places:
                places[v] = len(avals)
                avals.append([self.value(v.aval), type(v) is DropVar])
            return places[v]

        ends = [list(map(atom, vs)) for vs in (jaxpr.constvars, jaxpr.invars)]
        eqns = [self.equation(eqn, atom) for eqn in jaxpr.eqns]
        info = jaxpr.debug_info
        named = [info.traced_for, info.func_src_info, list(info.arg_names or ())] if info else None
        consts = list(map(self.value, closed.consts))
        return [*ends, eqns, list(map(atom, jaxpr.outvars)), avals, consts, named]

    def equation(self, eqn: JaxprEqn, atom: Any) -> Any:
        primitive, params = eqn.primitive, dict(eqn.params)
        if "callback" in primitive.name or "print" in primitive.name or "callback" in params:
            raise NotImplementedError(
                "serialization of host_callbacks is not yet implemented: the program calls Python "
                f"by {primitive.name}. Fix: export the function without callbacks and prints."
            )
        if primitive.name in ("custom_jvp_call", "custom_vjp_call"):  # a file has no Python rules
            primitive, params = jit_p, call_params(params["call_jaxpr"], primitive.name)
        if callable(params.get("computation")):  # the program beside it says the same
            params["computation"] = None
        fields = [[k, self.value(v)] for k, v in params.items()]
        ins, outs = list(map(atom, eqn.invars)), list(map(atom, eqn.outvars))
        return [self.place(primitive), primitive.name, fields, ins, outs]

    def place(self, primitive: Primitive) -> str:
        """The module that has a primitive."""
        if not self.places:
            for name, module in _modules():
                for x in list(vars(module).values()):
                    if isinstance(x, Primitive):
                        self.places.setdefault(id(x), name)
        if id(primitive) not in self.places:
            raise ValueError(
                f"Cannot serialize a program with the operation {primitive}, which is not of this "
                "package. Fix: write it in terms of jax.lax."
            )
        return self.places[id(primitive)]


class Reader:
    """The inverse of Writer."""

    def __init__(self, data: Any) -> None:
        self.data = data
        self.scopes = [SymbolicScope(texts) for texts in data["scopes"]]
        self.made: dict[int, ClosedJaxpr] = {}

    def value(self, x: Any) -> Any:
        if type(x) is not list:
            return x
        kind, *rest = x
        return getattr(self, "_" + kind)(*rest)

    def _tuple(self, *parts: Any) -> Any:
        return tuple(map(self.value, parts))

    def _list(self, *parts: Any) -> Any:
        return list(map(self.value, parts))

    def _frozenset(self, *parts: Any) -> Any:
        return frozenset(map(self.value, parts))

    def _dict(self, *pairs: Any) -> Any:
        return {self.value(k): self.value(v) for k, v in pairs}

    def _aval(self, shape: Any, dtype: Any, weak: bool, sharding: Any = None) -> Any:
        lies = self.value(sharding)
        return ShapedArray(self.value(shape), self.value(dtype), weak, sharding=lies)

    def _mesh(self, sizes: Any, names: Any, types: Any) -> Any:
        kinds = tuple(AxisType[t] for t in types)
        return AbstractMesh(tuple(sizes), tuple(map(self.value, names)), kinds)

    def _spec(self, parts: Any, unreduced: Any, reduced: Any) -> Any:
        free = PartitionSpec.UNCONSTRAINED
        made = [free if p == "free" else self.value(p[0]) for p in parts]
        sums = [frozenset(map(self.value, names)) for names in (unreduced, reduced)]
        return PartitionSpec(*made, unreduced=sums[0], reduced=sums[1])

    def _named(self, mesh: Any, spec: Any, memory_kind: Any) -> Any:
        return NamedSharding(self.value(mesh), self.value(spec), memory_kind=memory_kind)

    def _dim(self, scope: int, text: str) -> Any:
        return symbolic_shape(text, scope=self.scopes[scope])[0]

    def _key(self, name: str) -> Any:
        return KeyDType(find_impl(name))

    def _impl(self, name: str) -> Any:
        return find_impl(name)

    def _float0(self) -> Any:
        return dtypes.float0

    def _dtype(self, name: str) -> Any:
        return dtypes.dtype(name)

    def _unspecified(self) -> Any:
        return UNSPECIFIED

    def _complex(self, real: float, imag: float) -> complex:
        return complex(real, imag)

    def _array(self, dtype: str, shape: Any, data: str) -> Any:
        raw = np.frombuffer(bytearray(base64.b64decode(data)), dtypes.dtype(dtype))
        return raw.reshape(shape)

    def _scalar(self, dtype: str, shape: Any, data: str) -> Any:
        return self._array(dtype, shape, data)[()]

    def _keys(self, impl: str, words: Any) -> Any:
        return PRNGKeyArray(find_impl(impl), to_array(self.value(words)))

    def _container(self, name: str) -> Any:
        return _CONTAINERS[name]

    def _enum(self, module: str, name: str, member: str) -> Any:
        return getattr(self._class(module, name, enum.Enum), member)

    def _object(self, module: str, name: str, *fields: Any) -> Any:
        return self._class(module, name, object)(**{k: self.value(v) for k, v in fields})

    def _class(self, module: str, name: str, base: type) -> Any:
        """A class of this package that programs have in parameters."""
        found = getattr(_module(module), name, None)
        if not (isinstance(found, type) and issubclass(found, base) and found.__module__ == module):
            raise ValueError(f"deserialize: {module} has no class {name} of parameters.")
        return found

    def _closed(self, number: int) -> ClosedJaxpr:
        if number not in self.made:
            self.made[number] = self.body(self.data["programs"][number])
        return self.made[number]

    def _open(self, number: int) -> Jaxpr:
        return self._closed(number).jaxpr

    def body(self, written: Any) -> ClosedJaxpr:
        consts_at, ins, eqns, outs, avals, consts, named = written
        vs = [(DropVar if drop else Var)(self.value(aval)) for aval, drop in avals]

        def atom(a: Any) -> Any:
            return vs[a] if type(a) is int else Literal(self.value(a[0]), self.value(a[1]))

        made = []
        effects: frozenset[Any] = frozenset()
        for module, name, fields, eqn_ins, eqn_outs in eqns:
            params = {k: self.value(v) for k, v in fields}
            made.append(
                JaxprEqn(
                    list(map(atom, eqn_ins)), list(map(atom, eqn_outs)),
                    _primitive(module, name), params,
                )
            )  # fmt: skip
        info = DebugInfo(named[0], named[1], tuple(named[2]) or None) if named else None
        jaxpr = Jaxpr(
            [vs[k] for k in consts_at], [vs[k] for k in ins], list(map(atom, outs)), made,
            effects, info,
        )  # fmt: skip
        return ClosedJaxpr(jaxpr, list(map(self.value, consts)))


def _module(name: str) -> Any:
    if not name.startswith(("pullback.core.", "pullback.primitives.", "pullback.control.")):
        raise ValueError(f"deserialize: the program names the module {name}, which is none of ours")
    return importlib.import_module(name)


def _primitive(module: str, name: str) -> Any:
    for x in vars(_module(module)).values():
        if isinstance(x, Primitive) and x.name == name:
            return x
    raise ValueError(
        f"deserialize: the program has the operation {name}, which {module} does not have. Fix: "
        "read it by the version of the package that wrote it."
    )
