"""People and programs that use the cluster."""

from actors.users.admin import Admin, ApplyAll, Command, Cordon, DeleteAll, Drain, ScaleTo

__all__ = ["Admin", "ApplyAll", "Command", "Cordon", "DeleteAll", "Drain", "ScaleTo"]
