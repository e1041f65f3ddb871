"""The clocks for programs of users, in Python and in Go, on a served cluster."""

from __future__ import annotations

import os
import shutil
import subprocess
from datetime import timedelta
from pathlib import Path

import pytest
import trio

from orrery.clock import Clock
from sim.app.steering.remote import Remote
from sim.errors import InputError
from tests.cluster.daemons.running import client_of, served

FILE = Path(__file__).parents[3] / "docs" / "clients" / "go" / "clock" / "clock.go"
GO = shutil.which("go") or shutil.which("go", path="/usr/lib/go-1.19/bin")
PROGRAM = """\
package main

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"time"

	"example.com/try/clock"
)

func main() {
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	c, err := clock.Attach(&http.Client{Transport: user{transport}}, os.Args[1], "go")
	if err != nil {
		panic(err)
	}
	begin := c.Now()
	c.Sleep(40 * time.Second)
	fmt.Println("slept", c.Since(begin).Seconds())
	stopped := c.NewTimer(time.Minute)
	fmt.Println("stopped", stopped.Stop(), stopped.Stop())
	called := make(chan float64)
	begin = c.Now()
	c.AfterFunc(20*time.Second, func() { called <- c.Since(begin).Seconds() })
	fmt.Println("called", <-called)
	ticker := c.NewTicker(10 * time.Second)
	from := c.Now()
	for i := 0; i < 3; i++ {
		fmt.Println("tick", (<-ticker.C()).Sub(from).Seconds())
	}
	fmt.Println("ended", c.Err())
}

type user struct{ next http.RoundTripper }

func (u user) RoundTrip(r *http.Request) (*http.Response, error) {
	r.Header.Set("Authorization", "Bearer "+os.Args[2])
	return u.next.RoundTrip(r)
}
"""


@pytest.mark.slow
def test_a_python_program_sleeps_hours_of_virtual_time(tmp_path: Path) -> None:
    with served(tmp_path) as config:
        clock = Clock("python", config)
        fired: list[timedelta] = []
        with clock.hold():
            begin = clock.now()
            assert Remote(config).get("/state")["held_by"] != []
            for seconds in (3600, 60, 7200):
                clock.timer(seconds, lambda: fired.append(clock.now() - begin))
            clock.timer(30, lambda: fired.append(timedelta())).cancel()
            Remote(config).put("/time/pace", {"pace": "max"})
        clock.sleep(7200)
        trio.run(clock.wait, 60)
        assert fired == [timedelta(seconds=seconds) for seconds in (60, 3600, 7200)]
        assert clock.now() - begin >= timedelta(seconds=7260)
        clock.close()
        with pytest.raises(InputError, match="closed"):
            clock.sleep(1)


@pytest.mark.slow
@pytest.mark.skipif(GO is None, reason="go is not installed: install golang-go to test the clock in Go")
def test_a_go_program_lives_in_virtual_time(tmp_path: Path) -> None:
    assert GO is not None
    source = tmp_path / "try"
    (source / "clock").mkdir(parents=True)
    shutil.copy(FILE, source / "clock")
    (source / "go.mod").write_text("module example.com/try\n\ngo 1.19\n")
    (source / "main.go").write_text(PROGRAM)
    build = {**os.environ, "GOCACHE": str(tmp_path / "cache"), "GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local"}
    program = tmp_path / "program"
    for words in (["vet", "./..."], ["build", "-o", str(program), "."]):
        subprocess.run([GO, *words], cwd=source, env=build, check=True)
    with served(tmp_path) as config, client_of(config) as client:
        Remote(config).put("/time/pace", {"pace": 20})
        token = client.headers["Authorization"].removeprefix("Bearer ")
        done = subprocess.run(
            [program, str(client.base_url), token], capture_output=True, text=True, timeout=60, check=False
        )
    assert done.returncode == 0, done.stderr
    said = [line.split() for line in done.stdout.splitlines()]
    assert said[1] == ["stopped", "true", "false"]
    assert said[-1] == ["ended", "<nil>"]
    passed = [float(words[1]) for words in said if words[0] in ("slept", "called", "tick")]
    wanted = [40, 20, 10, 20, 30]
    assert passed == [pytest.approx(seconds, abs=5) for seconds in wanted]
