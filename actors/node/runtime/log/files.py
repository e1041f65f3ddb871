"""The log files of one container instance, as they grow and are rotated.  Pure.

Turns a rate of writing and rotations into the bytes on disk at any time.

Holds: between two rotations the use is a straight line.

Mirrors  pkg/kubelet/logs/container_log_manager.go: rotateLog, removeExcessLogs, compressLog
         (v1.25).
Differs  a compressed file has a tenth of the size, with any contents; compression takes no time and
         needs no space besides the file.
"""

from __future__ import annotations

from dataclasses import replace

from sim.dataclass import dataclass
from sim.units import SECOND

COMPRESSION = 10  # of repetitive text; gzip's ratio lies between 1 and about 1000


@dataclass(frozen=True, slots=True)
class LogFiles:
    """The files of one log.

    rate: bytes a second
    size: of the file that is written, at `since_us`
    rotated: sizes of the other files, newest first; only the first is not compressed
    """

    rate: int
    size: int
    since_us: int
    rotated: tuple[int, ...] = ()

    def live(self, at_us: int) -> int:
        """The size of the file that is written."""
        return self.size + self.rate * max(0, at_us - self.since_us) // SECOND

    def whole(self, at_us: int) -> int:
        """The size of all files."""
        return self.live(at_us) + sum(self.rotated)

    def written(self, rate: int, now_us: int) -> LogFiles:
        """The same files, written at another rate from now on."""
        return replace(self, rate=rate, size=self.live(now_us), since_us=now_us)

    def rotate(self, files_max: int, now_us: int) -> LogFiles:
        """Begin a new file.

        files_max: bounds the files, with the new one and the one that ends now
        """
        kept = self.rotated[: files_max - 2]
        packed = (kept[0] // COMPRESSION, *kept[1:]) if kept else ()
        return LogFiles(self.rate, 0, now_us, (self.live(now_us), *packed))
