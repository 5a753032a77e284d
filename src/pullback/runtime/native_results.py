"""What a call returns, as native code: outputs become arrays; arrays become the tuples, lists,
dicts and objects that the function returns."""

from __future__ import annotations

from pullback.records import record
from pullback.runtime import native_layout as L
from pullback.runtime.native_array import out_of_memory
from pullback.runtime.native_build import Fn
from pullback.runtime.native_operands import DATAS, OBJS, only_array

__all__ = ["result_functions"]


def _results() -> Fn:
    """i64 results(e, slots, objs, results): makes the output objects; on failure what was made is
    gone, -1."""
    f = Fn("pb_results", "i64", "ptr e, ptr slots, ptr objs, ptr results", inline=True)
    n, outs = f.ld("i64", "%e", L.E_NOUTS), f.ld("ptr", "%e", L.E_OUTS)
    bad, source = f.var("i64", 0), f.var("ptr", "null")
    sizes = f.ld("i64", "%e", L.E_SIZES)

    def one(k: str) -> None:
        o = f.gep(outs, f.op("shl", k, 5))
        where = f.ld("i64", o)
        f.st("ptr", "null", f.idx("%results", k))
        cases = f"i64 {L.OUT_ARGUMENT}, label %alias i64 {L.OUT_OF_ARGUMENT}, label %alias "
        cases += f"i64 {L.OUT_OF_CONST}, label %const i64 {L.OUT_OF_OUTPUT}, label %twin"
        f.do(f"switch i64 {f.ld('i64', o, 24)}, label %make [{cases}]")
        f.at("const")
        f.st("ptr", f.ld("ptr", o), source)
        f.go("share")
        f.at("twin")
        f.st("ptr", f.ld("ptr", f.idx("%results", where)), source)
        f.br(f.is_null(f.ld("ptr", source)), "one_next", "share")
        f.at("alias")
        a = only_array(f, f.ld("ptr", f.idx("%objs", where)))
        f.br(f.is_null(a), "scalar", "of_array")
        f.at("of_array")
        alike = f.cmp("eq", f.ld("ptr", a, L.AVAL), f.ld("ptr", o, 16), "ptr")
        f.br(alike, "aliased", "scalar")
        # Python's number came where an Array did when the entry was made, or an Array of its weak
        # type where the number did: the output's type may be the strong one.
        f.at("scalar")
        _copied_number(f, o, where, k, bad)
        f.at("aliased")
        f.st("ptr", a, source)
        f.br(f.cmp("eq", f.ld("i64", o, 24), L.OUT_ARGUMENT), "itself", "share")
        f.at("itself")
        f.incref(a)
        f.st("ptr", a, f.idx("%results", k))
        f.go("one_next")
        f.at("share")  # an array of its own: the other may be deleted or donated
        shared = f.own("ptr", "pb_twin", f"ptr {f.ld('ptr', source)}")
        f.st("ptr", shared, f.idx("%results", k))
        f.br(f.is_null(shared), "not_shared", "one_next")
        f.at("not_shared")
        f.st("i64", 1, bad)
        f.go("one_next")
        f.at("make")
        data, asked = f.ld("ptr", f.idx("%slots", where)), f.ld("i64", o, 8)
        made_by_plan = f.cmp("eq", f.ld("i64", o, 24), L.OUT_FROM_PLAN)
        offset = f.v(f"select i1 {made_by_plan}, i64 {sizes}, i64 0")
        planned = f.ld("i64", f.idx("%slots", f.op("add", where, offset)))
        size = f.v(f"select i1 {made_by_plan}, i64 {planned}, i64 {asked}")
        x = f.own("ptr", "pb_make", f"ptr {f.ld('ptr', o, 16)}", f"ptr {data}", f"i64 {size}")
        f.br(f.is_null(x), "lost", "made")
        f.at("lost")
        f.own("void", "pb_free_held", f"ptr {data}", f"i64 {size}")
        f.st("i64", 1, bad)
        f.go("one_next")
        f.at("made")
        f.st("ptr", x, f.idx("%results", k))

    f.loop("one", n, one)
    f.br(f.cmp("eq", f.ld("i64", bad), 0), "good", "undo_all")
    f.at("good")
    _commit(f, n)
    f.ret("i64 0")
    f.at("undo_all")
    f.loop("undo", n, lambda k: f.xdecref(f.ld("ptr", f.idx("%results", k))))
    f.ret("i64 -1")
    return f


def _commit(f: Fn, n: str) -> None:
    """Gives the results their shardings; returns 0 where the entry's results are not committed."""
    committed = f.ld("ptr", "%e", L.E_COMMITTED)
    f.br(f.is_null(committed), "free", "commit")
    f.at("free")
    f.ret("i64 0")
    f.at("commit")

    def commit(k: str) -> None:
        x = f.ld("ptr", f.idx("%results", k))
        sharding, before = f.ld("ptr", f.idx(committed, k)), f.ld("ptr", x, L.COMMITTED)
        f.when(f.is_null(sharding), "commit_one_next")
        f.incref(sharding)
        f.st("ptr", sharding, x, L.COMMITTED)
        f.xdecref(before)

    f.loop("commit_one", n, commit)


def _copied_number(f: Fn, o: str, where: str, k: str, bad: str) -> None:
    """An output that is an argument, but no Array of its type: one with the leaf's value."""
    cell = f.ld("ptr", f.idx(f.gep("%objs", DATAS - OBJS), where))
    size = f.ld("i64", o, 8)
    block = f.own("ptr", "pb_alloc_held", f"i64 {size}")
    f.br(f.is_null(block), "no_block", "copied")
    f.at("no_block")
    out_of_memory(f, size)
    f.st("i64", 1, bad)
    f.go("one_next")
    f.at("copied")
    f.call("ptr", "memcpy", f"ptr {block}", f"ptr {cell}", f"i64 {size}")
    x = f.own("ptr", "pb_make", f"ptr {f.ld('ptr', o, 16)}", f"ptr {block}", f"i64 {size}")
    f.st("ptr", x, f.idx("%results", k))
    f.br(f.is_null(x), "no_number", "one_next")
    f.at("no_number")
    f.own("void", "pb_free_held", f"ptr {block}", f"i64 {size}")
    f.st("i64", 1, bad)
    f.go("one_next")


def _sequence() -> Fn:
    """ptr sequence(items, n, list?): a tuple or list that takes over the items' references; they
    are dropped on failure."""
    f = Fn("pb_sequence", "ptr", "ptr items, i64 n, i64 kind", inline=True)
    made, place = f.var("ptr", "null"), f.var("ptr", "null")
    f.br(f.cmp("eq", "%kind", 0), "tuple", "list")
    f.at("tuple")
    t = f.call("ptr", "PyTuple_New", "i64 %n")
    f.when(f.is_null(t), "failed")
    f.st("ptr", t, made)
    f.st("ptr", f.gep(t, L.TUPLE_ITEMS), place)
    f.go("fill")
    f.at("list")
    x = f.call("ptr", "PyList_New", "i64 %n")
    f.when(f.is_null(x), "failed")
    f.st("ptr", x, made)
    f.st("ptr", f.ld("ptr", x, 24), place)
    f.go("fill")
    f.at("fill")
    at = f.ld("ptr", place)
    f.loop("item", "%n", lambda k: f.st("ptr", f.ld("ptr", f.idx("%items", k)), f.idx(at, k)))
    f.ret("ptr " + f.ld("ptr", made))
    f.at("failed")
    f.loop("drop", "%n", lambda k: f.decref(f.ld("ptr", f.idx("%items", k))))
    f.ret("ptr null")
    return f


def _build() -> Fn:
    """ptr build(e, results): the Python result; takes over the references in `results`."""
    f = Fn("pb_build", "ptr", "ptr e, ptr results", inline=True)
    kind, n = f.ld("i64", "%e", L.E_RESULT), f.ld("i64", "%e", L.E_NOUTS)
    f.br(f.cmp("eq", kind, L.RESULT_SINGLE), "single", "other")
    f.at("single")
    f.ret("ptr " + f.ld("ptr", "%results"))
    f.at("other")
    argument = f.ld("ptr", "%e", L.E_RESULT_ARG)
    f.when(f.cmp("eq", kind, L.RESULT_PROGRAM), "program")
    islist = f.v(f"zext i1 {f.cmp('eq', kind, L.RESULT_LIST)} to i64")
    t = f.own("ptr", "pb_sequence", "ptr %results", f"i64 {n}", f"i64 {islist}")
    f.when(f.is_null(t), "failed")
    f.br(f.cmp("eq", kind, L.RESULT_CALL), "call", "plain")
    f.at("plain")
    f.ret("ptr " + t)
    f.at("call")
    r = f.call("ptr", "PyObject_CallOneArg", f"ptr {argument}", f"ptr {t}")
    f.decref(t)
    f.ret("ptr " + r)
    f.at("failed")
    f.ret("ptr null")
    f.at("program")
    f.ret("ptr " + f.own("ptr", "pb_program", f"ptr {argument}", "ptr %results", f"i64 {n}"))
    return f


# What each step of a program does, by the label of its block.
_STEPS = {
    L.P_LEAF: "leaf",
    L.P_TUPLE: "seq",
    L.P_LIST: "seq",
    L.P_DICT: "dict",
    L.P_CONST: "const",
    L.P_NAMED: "named",
    L.P_FIELDS: "fields",
}


@record
class _Step:
    """What the steps of a program work on: the stack, its height as a variable and as it was before
    the step, the step's word, and where what it makes is left for the stack."""

    f: Fn
    stack: str
    top: str
    height: str
    argument: str
    made: str

    def below(self, count: str) -> str:
        """Where the last so many objects of the stack begin."""
        return self.f.op("sub", self.height, count)

    def at(self, first: str, k: str) -> str:
        """The k-th object from there."""
        return self.f.ld("ptr", self.f.idx(self.stack, self.f.op("add", first, k)))

    def push(self, value: str, height: str | None = None) -> None:
        """Ends the step: the stack, first cut to `height`, gets one object more."""
        if height is not None:
            self.f.st("i64", height, self.top)
        self.f.st("ptr", value, self.made)
        self.f.go("push")


def _program() -> Fn:
    """ptr program(code, results, n): a postfix program over a stack builds nested tuples, lists
    and dicts."""
    f = Fn("pb_program", "ptr", "ptr code, ptr results, i64 n", internal=True, hot=True)
    stack = f.local(f"[{L.MAX_RESULT_STACK} x ptr], align 16")
    top, at, made = f.var("i64", 0), f.var("ptr", "%code"), f.var("ptr", "null")
    f.go("step")
    f.at("step")
    p = f.ld("ptr", at)
    code, arg = f.ld("i64", p), f.ld("i64", p, 8)
    f.st("ptr", f.gep(p, 16), at)
    step = _Step(f, stack, top, f.ld("i64", top), arg, made)
    cases = " ".join(f"i64 {k}, label %{v}" for k, v in _STEPS.items())
    f.do(f"switch i64 {code}, label %finish [{cases}]")
    f.at("leaf")
    x = f.ld("ptr", f.idx("%results", arg))
    f.incref(x)
    step.push(x)
    f.at("const")
    x = f.v(f"inttoptr i64 {arg} to ptr")
    f.incref(x)
    step.push(x)
    f.at("push")
    f.st("ptr", f.ld("ptr", made), f.idx(stack, f.ld("i64", top)))
    f.bump(top, 0, 1)
    f.go("step")
    f.at("seq")
    _sequence_step(step, code)
    f.at("named")
    _named_step(step)
    f.at("fields")
    _fields_step(step)
    f.at("dict")
    _dict_step(step)
    f.at("drop")
    f.loop("dropped", f.ld("i64", top), lambda k: f.decref(f.ld("ptr", f.idx(stack, k))))
    f.st("ptr", "null", stack)
    f.go("finish")
    f.at("finish")
    f.loop("end", "%n", lambda k: f.decref(f.ld("ptr", f.idx("%results", k))))
    f.ret("ptr " + f.ld("ptr", stack))
    return f


def _sequence_step(step: _Step, code: str) -> None:
    """A tuple or list of so many objects."""
    f = step.f
    base = step.below(step.argument)
    islist = f.v(f"zext i1 {f.cmp('eq', code, L.P_LIST)} to i64")
    f.st("i64", base, step.top)
    items = f.idx(step.stack, base)
    t = f.own("ptr", "pb_sequence", f"ptr {items}", f"i64 {step.argument}", f"i64 {islist}")
    f.when(f.is_null(t), "drop")
    step.push(t)


def _named_step(step: _Step) -> None:
    """(type, length): what tuple.__new__(type, items) makes."""
    f = step.f
    kind = f.v(f"inttoptr i64 {step.argument} to ptr")
    size = f.ld("i64", kind, 8)
    t = f.call("ptr", "PyType_GenericAlloc", f"ptr {f.ld('ptr', kind)}", f"i64 {size}")
    f.when(f.is_null(t), "drop")
    first = step.below(size)
    items = f.gep(t, L.TUPLE_ITEMS)
    f.loop("put", size, lambda k: f.st("ptr", step.at(first, k), f.idx(items, k)))
    step.push(t, first)


def _fields_step(step: _Step) -> None:
    """(type, number, object's tp_new, (), names): object.__new__(type), then its attributes."""
    f = step.f
    kind = f.v(f"inttoptr i64 {step.argument} to ptr")
    total = f.ld("i64", kind, 8)
    new, nothing = f.ld("ptr", kind, 16), f.ld("ptr", kind, 24)
    o = f.v(f"call ptr {new}(ptr {f.ld('ptr', kind)}, ptr {nothing}, ptr null)")
    f.when(f.is_null(o), "drop")
    lowest = step.below(total)

    def attribute(k: str) -> None:
        value = step.at(lowest, k)
        name = f.ld("ptr", f.idx(f.gep(kind, 32), k))
        r = f.call("i32", "PyObject_GenericSetAttr", f"ptr {o}", f"ptr {name}", f"ptr {value}")
        f.when(f.cmp("ne", r, 0, "i32"), "bad_object")

    f.loop("attribute", total, attribute)
    f.loop("held", total, lambda k: f.decref(step.at(lowest, k)))
    step.push(o, lowest)
    f.at("bad_object")
    f.decref(o)
    f.go("drop")


def _dict_step(step: _Step) -> None:
    """(keys, dict of these keys or null): a dict of so many values."""
    f = step.f
    kind = f.v(f"inttoptr i64 {step.argument} to ptr")
    keys, pattern = f.ld("ptr", kind), f.ld("ptr", kind, 8)
    count = f.ld("i64", keys, 16)
    f.br(f.is_null(pattern), "dict_new", "dict_copy")
    f.at("dict_new")
    fresh = f.call("ptr", "PyDict_New")
    f.go("dict_made")
    f.at("dict_copy")
    copied = f.call("ptr", "PyDict_Copy", f"ptr {pattern}")
    f.go("dict_made")
    f.at("dict_made")
    d = f.v(f"phi ptr [{fresh}, %dict_new], [{copied}, %dict_copy]")
    f.when(f.is_null(d), "drop")
    start = step.below(count)

    def item(k: str) -> None:
        value = step.at(start, k)
        key = f.ld("ptr", f.idx(f.gep(keys, L.TUPLE_ITEMS), k))
        r = f.call("i32", "PyDict_SetItem", f"ptr {d}", f"ptr {key}", f"ptr {value}")
        f.when(f.cmp("ne", r, 0, "i32"), "bad_dict")

    f.loop("item", count, item)
    f.loop("given", count, lambda k: f.decref(step.at(start, k)))
    step.push(d, start)
    f.at("bad_dict")
    f.decref(d)
    f.go("drop")


def result_functions() -> list[Fn]:
    """Everything that makes results."""
    return [_results(), _sequence(), _program(), _build()]
