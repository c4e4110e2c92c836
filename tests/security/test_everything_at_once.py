"""Everything that a viewer, a member and a worker can do, at once, beside a training of another tenant that must not notice."""
import pytest
from attack import INSIDE
from beside import everything_at_once


@pytest.mark.parametrize("role", INSIDE)
def test_everything_inside_at_once(open_folder, role):
    everything_at_once(open_folder, [role])
