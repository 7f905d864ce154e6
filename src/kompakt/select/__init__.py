"""Label-free, one-shot choice of basis vectors, and the bandwidths it needs."""

from kompakt.select.bandwidth import BandwidthWarning, bandwidths, sheather_jones

__all__ = ["BandwidthWarning", "bandwidths", "sheather_jones"]
