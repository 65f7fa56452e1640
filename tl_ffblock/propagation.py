# Noun: attribution. The package `attribution` had this name in 0.2.0.
"""Former name of `tl_ffblock.attribution`. Importing it warns; the next version will not have it."""

import warnings

from tl_ffblock.attribution import *  # noqa: F403
from tl_ffblock.attribution import (
    AttributionGraph as AttributionGraph,
    EdgeEstimates as EdgeEstimates,
    __all__ as __all__,
)

warnings.warn("tl_ffblock.propagation is tl_ffblock.attribution now", DeprecationWarning, stacklevel=2)
