"""Many marginals of a domain of whatever size, fitted one by one."""

from dpsdk.mechanisms.local_marginals.mechanism import LocalMarginals

__all__ = ["LocalMarginals"]
