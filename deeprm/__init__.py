"""DeepRM: multi-resource packing learned from images of a cluster. It knows nothing of Spark."""
