"""Lists of another server as a watch."""

from sim.api.aggregation.listed_watch import ListedWatch, events_between
from sim.api.store import Item


def item(name: str, rev: int) -> Item:
    return Item(f"a/{name}", {"metadata": {"name": name, "resourceVersion": str(rev)}}, rev, rev)


def test_events_lead_from_one_list_to_the_next():
    before = {each.key: each for each in (item("gone", 1), item("same", 2), item("new", 3))}
    after = {each.key: each for each in (item("same", 2), item("new", 7), item("more", 6))}
    found = [(event.type, event.item.key, event.revision) for event in events_between(before, after, 8)]
    assert found == [("DELETED", "a/gone", 8), ("ADDED", "a/more", 6), ("MODIFIED", "a/new", 7)]


def test_a_watch_notifies_of_changes_and_of_its_end_once():
    notified, ends = [], []
    watch = ListedWatch([item("x", 1)], lambda: ends.append("closed"))
    watch.attach(lambda: notified.append(watch.ended))
    watch.observe_end(lambda: ends.append("observed"))
    watch.take_list([item("x", 1)], 1)
    assert notified == []
    watch.take_list([item("x", 2)], 2)
    assert (notified, [event.type for event in watch.take()], watch.take()) == ([False], ["MODIFIED"], [])
    watch.close()
    watch.close()
    assert (notified, ends) == ([False, True], ["closed", "observed"])
