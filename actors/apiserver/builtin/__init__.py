"""Objects that the API server makes and maintains itself.

Each runs in every replica and corrects its objects at fixed times, so that a deleted default comes
back; replicas that do so at once write the same.
"""
