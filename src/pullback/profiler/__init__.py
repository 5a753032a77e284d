"""Where the time goes: recordings of a program's parts for Perfetto, and the time of every kernel
of a compiled function as a table or a page (`profile_kernels`)."""

from .kernels import KernelProfile, KernelTime, LineTime, profile_kernels
from .memory import (
    ProfileOptions,
    device_memory_profile,
    register_subprocess,
    save_device_memory_profile,
    start_server,
    stop_server,
)
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
    "ProfileOptions",
    "StepTraceAnnotation",
    "TraceAnnotation",
    "annotate_function",
    "device_memory_profile",
    "profile_kernels",
    "register_subprocess",
    "save_device_memory_profile",
    "start_server",
    "start_trace",
    "stop_server",
    "stop_trace",
    "trace",
]
