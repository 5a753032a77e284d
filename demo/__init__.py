"""Three demonstrations on real data: a photograph restored, digits learnt, a line fitted."""
