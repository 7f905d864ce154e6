"""scikit-learn's estimator checks on every machine; excuses live in one table."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.estimators.excuses import EXCUSES, excuses_of, kinds_of
from tests.estimators.machines import MACHINES


@parametrize_with_checks(MACHINES, expected_failed_checks=excuses_of)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # some checks set max_iter to 1 or 2
@pytest.mark.filterwarnings("ignore::kompakt.reduce.ReductionWarning")  # most checks have fewer than 100 rows
@pytest.mark.filterwarnings("ignore:the targets y mark no row as an outlier")  # most checks give a detector some y
def test_estimator_checks(estimator, check):
    check(estimator)


def test_every_excuse_belongs_to_a_machine():
    names = {kind for machine in MACHINES for kind in kinds_of(machine)}
    assert set(EXCUSES) <= names
    assert all(reason for checks in EXCUSES.values() for reason in checks.values())
