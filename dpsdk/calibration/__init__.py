"""Calibration: how far off mechanisms are on public tables, measured for a planner to expect."""

from dpsdk.calibration.measuring import Observation, measure
from dpsdk.calibration.running import calibrate
from dpsdk.calibration.tables import PublicTable
from dpsdk.planner.calibration import Calibration

__all__ = ["Calibration", "Observation", "PublicTable", "calibrate", "measure"]
