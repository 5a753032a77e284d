"""`colocated_python.func`: in JAX, how functions reach other hosts. There is one host here."""
