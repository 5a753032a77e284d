"""The loop-nest compiler: from jaxprs to kernels and plans; no LLVM in here."""
