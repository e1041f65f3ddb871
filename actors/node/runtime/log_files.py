"""The files of one container instance's log, as it grows and is rotated.  Pure.

Turns a rate of writing and rotations into the bytes on disk at any time.

Holds: between two rotations the use is a straight line.

Mirrors  pkg/kubelet/logs/container_log_manager.go: rotateLog, removeExcessLogs, compressLog (v1.25).
Differs  a compressed file takes a tenth, whatever is in it; compressing takes no time, nor room beside the file.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sim.units import SECOND

COMPRESSION = 10  # of repetitive text; gzip's worst is none, its best a thousand


@dataclass(frozen=True, slots=True)
class LogFiles:
    """rate: bytes a second; size: of the file that is written, at `since_us`; rotated: the others, the newest first, which is
    the only one that is not compressed."""

    rate: int
    size: int
    since_us: int
    rotated: tuple[int, ...] = ()

    def live(self, at_us: int) -> int:
        """The file that is written."""
        return self.size + self.rate * max(0, at_us - self.since_us) // SECOND

    def whole(self, at_us: int) -> int:
        return self.live(at_us) + sum(self.rotated)

    def written(self, rate: int, now_us: int) -> LogFiles:
        """From now on at another rate."""
        return replace(self, rate=rate, size=self.live(now_us), since_us=now_us)

    def rotate(self, files_max: int, now_us: int) -> LogFiles:
        """A new file is begun.  Of the others so many stay that there are `files_max` with it and the one that ends now."""
        kept = self.rotated[: files_max - 2]
        packed = (kept[0] // COMPRESSION, *kept[1:]) if kept else ()
        return LogFiles(self.rate, 0, now_us, (self.live(now_us), *packed))
