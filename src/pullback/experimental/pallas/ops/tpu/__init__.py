"""Operations that JAX writes as kernels for TPUs: here they are ordinary programs."""
