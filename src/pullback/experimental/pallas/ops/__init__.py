"""Operations that JAX writes as kernels, by the device that they are written for."""
