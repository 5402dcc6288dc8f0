"""Losses: what a model pays for a margin when it sees a label."""

from dpsdk.losses import built_in
from dpsdk.losses.base import Constants, Loss, Predicts
from dpsdk.losses.built_in import *  # noqa: F403  # the names of that module are the room's own

__all__ = ["Constants", "Loss", "Predicts"]
__all__ += built_in.__all__
