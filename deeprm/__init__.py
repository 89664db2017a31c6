"""DeepRM: multi-resource packing learned from images of a cluster. It knows nothing of Spark."""

import decima_packages

decima_packages.check("deeprm")
