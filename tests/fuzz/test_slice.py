"""A short slice of `make fuzz`: the first trials of each kind."""

import pytest

from tests.fuzz.kinds import kinds, run_trial

NUM_TRIALS = 10


@pytest.mark.parametrize("kind", kinds())
def test_the_first_trials_hold(kind):
    for seed in range(NUM_TRIALS):
        run_trial(kind, seed)
