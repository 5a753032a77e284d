"""The table of addresses through which the runtime's native code reaches the interpreter and the C
library: `native_build.py` writes code that reads it, `native.py` fills it."""

from __future__ import annotations

__all__ = ["EXTERNALS", "MAGIC", "STATE_ENTRY", "TABLE_WORDS"]

MAGIC = (
    0x70756C6C6261636B,
    0x72756E74696D6531,
)  # two words: no other constant of ours looks like them
TABLE_WORDS = 128

# Functions and objects of the interpreter and of the C library, in table order. `&name` is the
# address of a variable, `*name` its value.
EXTERNALS = (
    "PyObject_GC_UnTrack PyObject_GC_Track PyObject_GC_Del _PyObject_GC_New PyObject_GC_IsTracked "
    "_PyObject_New PyObject_Free "
    "PyObject_ClearWeakRefs _Py_Dealloc Py_IncRef Py_DecRef PyObject_GetAttr "
    "PyObject_GenericSetAttr "
    "PyObject_Vectorcall PyObject_CallFunctionObjArgs PyObject_CallFunction PyObject_GetBuffer "
    "PyBuffer_FillInfo PyBuffer_Release "
    "PyErr_SetString PyErr_Occurred PyLong_AsLongLong PyLong_AsLongLongAndOverflow "
    "PyLong_FromLongLong "
    "PyLong_FromUnsignedLongLong PyLong_FromVoidPtr PyFloat_FromDouble PyFloat_AsDouble "
    "PyBool_FromLong PyComplex_FromDoubles "
    "PyComplex_RealAsDouble PyComplex_ImagAsDouble PyDict_Next PyDict_New PyDict_Copy "
    "PyDict_SetItem "
    "PyTuple_New PyList_New "
    "PyErr_Clear PyType_GenericAlloc &PySlice_Type "
    "PyMethod_New PyEval_SaveThread PyEval_RestoreThread PyBytes_FromStringAndSize "
    "PyThread_get_thread_ident "
    "PyObject_CallOneArg PyNumber_Index "
    "&PyFloat_Type &PyLong_Type &PyBool_Type &PyComplex_Type &PyTuple_Type &PyList_Type "
    "&PyDict_Type "
    "&_Py_NoneStruct &_Py_TrueStruct &_Py_NotImplementedStruct *PyExc_TypeError "
    "*PyExc_SystemError *PyExc_BufferError "
    "*PyExc_RuntimeError memcpy mmap munmap madvise sched_yield "
    "clock_gettime"
).split()
STATE_ENTRY = 2 + len(
    EXTERNALS
)  # the word after them: the address of the state block (native_layout.py)
