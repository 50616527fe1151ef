"""Which steps are draws: the closed form of the run's length against counting, for any settings."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scirocco.run.recording import Recording


@settings(derandomize=True, deadline=None)
@given(
    burn_in=st.integers(0, 30),
    thin=st.integers(1, 12),
    period=st.integers(1, 15),
    share=st.floats(0, 0.99),
    num_samples=st.integers(1, 60),
)
def test_length_of_a_run(burn_in, thin, period, share, num_samples):
    recording = Recording(burn_in, thin, period, int(share * period))
    steps = np.arange(1, burn_in + 61 * thin * period + 1)
    draws = steps[np.asarray(recording.is_draw(steps))]
    if len(draws) == 0:
        with pytest.raises(ValueError, match="choose thin so that some are"):
            recording.steps_for(num_samples)
    else:
        assert recording.steps_for(num_samples) == draws[num_samples - 1]
        stops = {int(recording.next_stop(np.int32(t))) for t in range(min(200, int(draws[-1])))}
        assert {int(d) for d in draws if d <= 200} <= stops
