"""Calibration: how far off mechanisms are on public tables, measured for a planner to expect."""

from dpsdk.calibration.measuring import Observation, measure
from dpsdk.calibration.running import calibrate
from dpsdk.calibration.tables import PublicTable

__all__ = ["Observation", "PublicTable", "calibrate", "measure"]
