"""Where the time goes: recordings of a program's parts for Perfetto, and the time of every kernel
of a compiled function as a table or a page (`profile_kernels`)."""

from .kernels import KernelProfile, KernelTime, LineTime, profile_kernels
from .recording import (
    StepTraceAnnotation,
    TraceAnnotation,
    annotate_function,
    start_trace,
    stop_trace,
    trace,
)

__all__ = [
    "KernelProfile",
    "KernelTime",
    "LineTime",
    "StepTraceAnnotation",
    "TraceAnnotation",
    "annotate_function",
    "profile_kernels",
    "start_trace",
    "stop_trace",
    "trace",
]
