"""The zoo: architectures, weights and datasets, embedded or on disk."""
