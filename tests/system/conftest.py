"""What tests of the command line begin with."""

import pytest

from dpsdk import Domain, Integer


@pytest.fixture
def ages(quick_disk):
    """A directory that has a small table of ages, and its domain."""
    (quick_disk / "table.csv").write_text("age\n" + "1\n2\n" * 90)
    Domain(Integer("age", 0, 9)).save(quick_disk / "domain.json")
    return quick_disk
