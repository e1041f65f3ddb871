"""Options of the scheduler: what has no effect is refused as such."""

import pytest

from sim.errors import InputError
from sim.options.scheduler import parse_scheduler


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"config": "f"}, "option config is"),
        ({"pod-max-backof": "5s"}, "did you mean 'pod-max-backoff'?"),
        ({"pod-initial-backoff": "20s"}, "pod-max-backoff must not be less than pod-initial-backoff"),
        ({"scheduler-name": ""}, "must not be empty"),
        ({"leader-elect-resource-name": ""}, "leader-elect-resource-name is ''"),
        ({"percentage-of-nodes-to-score": 101}, "must be between 0 and 100"),
    ],
)
def test_what_cannot_be_is_refused(given: dict[str, object], says: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_scheduler(given)
    assert says in str(refused.value)
