//! Parametric architectures.
