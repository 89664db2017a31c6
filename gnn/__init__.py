"""Graph encoder of the learned policy: tensors in, embeddings out. It knows no simulator."""
