"""Where things lie in the runtime's native structures: the state block, arrays, functions,
entries. Offsets in bytes.

The array's layout is binding (docs/contract.md); the others are known to the files of this folder
alone.
"""

from __future__ import annotations

# --- CPython's own objects: where a tuple's items start (3.14 has a word more before them) ---
TUPLE_ITEMS = tuple.__basicsize__
BYTES_ITEMS = bytes.__basicsize__ - 1  # of bytes (the NUL after them is counted)
GC_NEXT = -16  # the garbage collector's first link; zero in objects that it does not track

# --- ArrayImpl (the contract's table; `dict` is ours) ---
STATE, DATA, NBYTES, AVAL, OWNER, PINS, EVENT, COMMITTED, WEAKREFS, NPY_VALUE, DICT = range(
    16, 104, 8
)
ARRAY_BYTES = 104
READY, PENDING, FAILED, DELETED, EXTERNAL = range(5)

# Codes of the scalars that load_scalar reads.
SCALAR_CODES = {
    name: code for code, name in enumerate("i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 bool".split())
}

# --- how an exported buffer lies: bytes of these words, the shape's and the strides' after it ---
LAYOUT_BYTES, LAYOUT_ITEMSIZE, LAYOUT_NDIM, LAYOUT_FORMAT, LAYOUT_SHAPE = range(0, 40, 8)

# --- Pin: what an exported view holds on to ---
PIN_ARRAY, PIN_BYTES = 16, 24

# --- JitFunction ---
VECTORCALL, TABLE, MASK, LAST, SLOW, KEEP, FN_DICT, FN_WEAKREFS, STATICS = range(16, 88, 8)
# PLAIN: what is called while something is traced (null: SLOW). NAMED: a tuple of the keywords whose
# numbers are operands, in functions without PLAIN of those that are static (null: none).
# FORWARDS: not 0 if what PLAIN returns may be an argument itself; else it is made another array
# over that memory, so that donating one leaves the other.
PLAIN, NAMED, FORWARDS = 88, 96, 104
FUNCTION_BYTES = 112

# --- the state block: one per process, from the C library's calloc, never freed ---
TRACE_DEPTH, CONFIG_KEY, LOCK, IN_USE, PEAK, CACHED, CACHE_LIMIT, ALLOCATIONS = range(0, 64, 8)
SYSTEM_CALLS, SLAB, SLAB_END, MAPPED, OBJECTS, OBJECT_COUNT, OBJECT_LIMIT = range(64, 120, 8)
SCALARS = 128  # avals of Python's scalars: float, int, bool, complex; then INT_BITS (32 or 64)
SCALAR_FLOAT, SCALAR_INT, SCALAR_BOOL, SCALAR_COMPLEX, INT_BITS = range(128, 168, 8)
ARRAY_TYPE, FUNCTION_TYPE, PIN_TYPE, ERROR_HOOK, HOST_HOOK, BUFFER_HOOK = range(192, 240, 8)
# numpy.ndarray (null if its layout is unknown); the hash table of the types that operands may have
NDARRAY_TYPE, TYPES, TYPES_MASK = range(240, 264, 8)
# null, or the threads whose calls use a number of threads of their own: how many they are, the
# pool, then for each its identity and the number
THREAD_COUNTS = 264
# The identity of the one thread that has flags, or a mesh, of its own (0: there is none), and the
# number of its flags' values and mesh, which serves that thread in place of CONFIG_KEY.
OWN_THREAD, OWN_CONFIG = 272, 280
HUGE_PAUSE = 288  # maps that do not ask for huge pages, because those were slow to come
BUFFER_LAYOUT_NAME = 296  # the attribute of avals (a string) that says how a buffer of theirs lies
MEMORY_HOOK = 304  # called with the bytes that there is no memory for, raises
MEMORY_TOTAL = 312  # the bytes that the machine has: no block is larger, whatever is promised
ONE_DEVICE = 320  # the type of shardings on one device (null: none is known)
# Per operator: table, mask, last entry, slow function, JitFunction whose entries serve instead.
# The first four lie as in a JitFunction from TABLE on.
OPERATORS = 512
OPERATOR_SLOW, OPERATOR_FUNCTION, OPERATOR_BYTES = 24, 32, 40
FREE_LISTS = 4096
# What the holder of the GIL allocates and frees without the lock: lists of the small classes, bytes
# in them, and this side's share of IN_USE and ALLOCATIONS.
HELD_LISTS, HELD_CACHED, HELD_IN_USE, HELD_ALLOCATIONS = 6144, 7168, 7176, 7184
STATE_BYTES = 8192

# --- entries: what runs when a key is met; words of eight bytes ---
E_OWNER, E_NKEYS, E_KEYS, E_CONFIG, E_NLEAVES, E_ARG_SLOTS, E_ARG_CODES, E_MODE = range(0, 64, 8)
E_FN, E_PLAN, E_SCALARS, E_CTX, E_NSLOTS, E_SLOTS, E_NOUTS, E_OUTS = range(64, 128, 8)
E_FLAGS, E_RESULT, E_RESULT_ARG, E_NDONATED, E_DONATED, E_CLEANUP, E_SIZES = range(128, 184, 8)
E_COMMITTED = 184  # the outputs' shardings (0: as it is); null: no output is committed
ENTRY_WORDS = 24
MODE_KERNEL, MODE_PLAN = 0, 1
FLAG_RELEASE_GIL, FLAG_HOLD, FLAG_CONVERT = 1, 2, 4
FLAG_THREADS = 8  # the context says how many threads, whatever the caller's thread says
# An output's four words: slot or leaf, bytes, aval, kind. SWAPPED is allocated by us, but swapped
# with slots that the plan owns, so that the plan's clean-up frees it after a failure. CONST is an
# object that the entry holds (its address in place of the slot), SAME another output (its number).
# The kinds of outputs. OUT_ARGUMENT is an argument itself; those after it are arrays of their own
# over the memory of an argument, a constant, another output.
OUT_ALLOCATE, OUT_SWAPPED, OUT_FROM_PLAN, OUT_DONATED = range(4)
OUT_ARGUMENT, OUT_OF_ARGUMENT, OUT_OF_CONST, OUT_OF_OUTPUT = range(4, 8)
DONATED_TAKEN, DONATED_SWAPPED = 1, 2  # a donated leaf's two words: leaf, these bits
RESULT_SINGLE, RESULT_TUPLE, RESULT_LIST, RESULT_PROGRAM, RESULT_CALL = range(5)
# How a leaf goes to its slot: scalars are narrowed in their cells, NumPy's arrays into new blocks.
CODE_RAW, CODE_F32, CODE_C64, CODE_ARRAY_F32, CODE_ARRAY_I32, CODE_ARRAY_C64 = range(6)
# a result program's instructions: (opcode, operand) pairs of words
P_LEAF, P_TUPLE, P_LIST, P_DICT, P_CONST, P_NAMED, P_FIELDS, P_END = range(8)

# --- row reads `a[i]`: an entry of another kind ---
R_ROWS, R_BYTES, R_AVAL, R_COMMITTED = 32, 40, 48, 56

# --- limits of the native call path; larger calls go through Python ---
MAX_KEYS, MAX_LEAVES, MAX_SLOTS, MAX_NESTING, MAX_RESULT_STACK = 2048, 1024, 4096, 32, 1024
# An array's part of a key: its aval, and its sharding if it is committed.
# structure words in keys: odd, so that no address equals them
K_TUPLE, K_LIST, K_DICT, K_STATIC, K_KEYWORDS = 1, 3, 5, 7, 9
K_FLOAT, K_INT, K_NAMED, K_FIELDS, K_NUMPY, K_NUMBER, K_SLICE = 11, 13, 15, 17, 19, 21, 23

# --- how an operand is flattened: bits ---
# BY_VALUE: Python's numbers are part of the key, not operands. PARAMETERS: so are objects of the
# types that were registered as static, and slices. CONSTANT: of a static field, where arrays and
# NumPy's numbers are no operands either: such calls go through Python, which compares them.
BY_VALUE, PARAMETERS, CONSTANT = 1, 2, 4

# --- types that operands may have besides the built-in ones: pairs (type, information) hashed by
# address; the information's first word is one of these. NAMED: a named tuple. STATIC: compared by
# identity. FIELDS: numbers of children and of static fields, then their names. NUMBER: the bytes of
# a NumPy scalar.
T_NAMED, T_STATIC, T_FIELDS, T_NUMBER = range(1, 5)
NUMBER_VALUE = 16  # where a NumPy scalar keeps its value
# numpy.ndarray
ND_DATA, ND_NDIM, ND_SHAPE, ND_DTYPE, ND_FLAGS = 16, 24, 32, 56, 64
ND_USABLE = 0x101  # contiguous and aligned

BINARY = (
    "add subtract multiply true_divide floor_divide remainder power matmul lshift rshift and xor "
    "or lt le eq ne gt ge"
).split()
UNARY = "negative positive absolute invert".split()
OPERATOR_NAMES = (*BINARY, *UNARY, "getitem")
OPERATOR_INDEX = {name: k for k, name in enumerate(OPERATOR_NAMES)}

# --- the allocator ---
SMALL = 32 << 10  # blocks up to here are carved from slabs and stay ours
SLAB_BYTES = 1 << 20
HELD_LIMIT = 1 << 20  # bytes kept in the lists of the GIL's holder
HUGE = 1 << 20  # blocks from here on lie on 2 MiB boundaries and ask for huge pages
# A huge page is there in a quarter of a millisecond of the thread's time. Where the system has none
# free and moves other pages to make one, it takes eight: then so many maps do without.
HUGE_SLOW, HUGE_PAUSED_MAPS = 1_000_000, 32
CLASSES = 160
LARGEST = 1 << 46

# Docstrings of what the types of arrays and of jitted functions have of their own; the Python types
# of fallback.py have them too.
DOCS = {
    "aval": """The abstract value: shape, dtype and weak type.

    >>> jnp.zeros((2, 3)).aval
    ShapedArray(float32[2,3])
    """,
    "shape": """The extents: a tuple of ints.

    >>> jnp.zeros((2, 3)).shape
    (2, 3)
    """,
    "dtype": """The element type, as a NumPy dtype.

    >>> jnp.zeros(3).dtype
    dtype('float32')
    """,
    "ndim": """The number of axes.

    >>> jnp.zeros((2, 3)).ndim
    2
    """,
    "size": """The number of elements.

    >>> jnp.zeros((2, 3)).size
    6
    """,
    "weak_type": """Does the dtype give way to others in arithmetic, as a Python number's does?

    >>> jnp.asarray(2).weak_type, jnp.array([2]).weak_type
    (True, False)
    """,
    "JitFunction": """A jitted function, as `jit` returns it.

    Called as the function that it was made of. `trace`, `lower` and `eval_shape` take the same
    arguments and show the stages of compilation; `__wrapped__` is the function.

    >>> f = pb.jit(lambda x: x + 1)
    >>> isinstance(f, pb.stages.Wrapped), f.eval_shape(1.0).dtype
    (True, dtype('float32'))
    """,
}

HASH_MULTIPLIER = 0x9E3779B97F4A7C15


def hash_words(words: list[int]) -> int:
    """The hash of an entry's key, as `pb_lookup` computes it."""
    h = len(words)
    for w in words:
        h = ((h ^ w) * HASH_MULTIPLIER) & 0xFFFFFFFFFFFFFFFF
        h ^= h >> 32
    return h
