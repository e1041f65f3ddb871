// Package clock gives programs the virtual time of a cluster that `orrery serve` runs.
//
// Time in the cluster goes no further than the next timer of each clock.  When a timer fires, it
// rests for Settle, in which the program may set another timer or hold time by the control API.
// The methods are those of k8s.io/utils/clock; only the named types of its timers differ.
package clock

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"sort"
	"strings"
	"sync"
	"time"
)

// Settle is the real time that a program has to react after a timer has fired.
const Settle = 20 * time.Millisecond

type state struct {
	Clock   string          `json:"clock"`
	Turn    int64           `json:"turn"`
	EpochUs int64           `json:"epoch_us"`
	NowUs   int64           `json:"now_us"`
	Pace    json.RawMessage `json:"pace"`
	Paused  bool            `json:"paused"`
}

// Clock follows one cluster.
type Clock struct {
	server string
	client *http.Client

	mu        sync.Mutex
	last      state
	came      time.Time
	ended     int64
	announced int64 // -1 for none
	shownUs   int64
	timers    []*Timer
	changed   chan struct{}
	err       error
}

// Timer fires at an instant of virtual time; with a period it is a ticker.
type Timer struct {
	clock  *Clock
	ch     chan time.Time
	call   func()
	atUs   int64
	every  int64
	active bool
}

// Attach follows the cluster at a URL.  The client knows its certificates and credentials.
func Attach(client *http.Client, server, name string) (*Clock, error) {
	c := &Clock{server: strings.TrimRight(server, "/"), client: client, announced: -1, changed: make(chan struct{}, 1)}
	body, _ := json.Marshal(map[string]string{"name": name})
	answer, err := client.Post(c.server+"/orrery/v1/time/clock", "application/json", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		answer.Body.Close()
		return nil, fmt.Errorf("clock: %s answers %s", server, answer.Status)
	}
	lines := bufio.NewReader(answer.Body)
	if err := c.read(lines); err != nil {
		answer.Body.Close()
		return nil, err
	}
	go func() {
		defer answer.Body.Close()
		for c.read(lines) == nil {
		}
	}()
	go c.turns()
	return c, nil
}

// Err tells why the clock has ended; nil while it follows.
func (c *Clock) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Now is the time of the cluster.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wall(c.nowUs())
}

// Since is the virtual time that has passed.
func (c *Clock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// After sends the time once.
func (c *Clock) After(d time.Duration) <-chan time.Time { return c.NewTimer(d).C() }

// Tick sends the time again and again.
func (c *Clock) Tick(d time.Duration) <-chan time.Time { return c.NewTicker(d).C() }

// Sleep waits for virtual time.
func (c *Clock) Sleep(d time.Duration) { <-c.After(d) }

// NewTimer makes a timer.
func (c *Clock) NewTimer(d time.Duration) *Timer { return c.add(d, 0, nil) }

// NewTicker makes a ticker.
func (c *Clock) NewTicker(d time.Duration) *Timer { return c.add(d, d, nil) }

// AfterFunc calls a function in a goroutine of its own.
func (c *Clock) AfterFunc(d time.Duration, f func()) *Timer { return c.add(d, 0, f) }

// C is the channel of a timer.
func (t *Timer) C() <-chan time.Time { return t.ch }

// Stop lets a timer not fire; false if it has.
func (t *Timer) Stop() bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	return t.clock.remove(t)
}

// Reset lets a timer fire after another duration; false if it had fired or was stopped.
func (t *Timer) Reset(d time.Duration) bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	was := t.clock.remove(t)
	t.clock.start(t, d)
	return was
}

func (c *Clock) add(d, every time.Duration, f func()) *Timer {
	t := &Timer{clock: c, ch: make(chan time.Time, 1), call: f, every: every.Microseconds()}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.start(t, d)
	return t
}

func (c *Clock) start(t *Timer, d time.Duration) {
	t.atUs, t.active = c.nowUs()+max(0, d.Microseconds()), true
	c.timers = append(c.timers, t)
	sort.SliceStable(c.timers, func(i, j int) bool { return c.timers[i].atUs < c.timers[j].atUs })
	c.tell()
}

func (c *Clock) remove(t *Timer) bool {
	was := t.active
	t.active = false
	for i, other := range c.timers {
		if other == t {
			c.timers = append(c.timers[:i], c.timers[i+1:]...)
			break
		}
	}
	c.tell()
	return was
}

func (c *Clock) tell() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

func (c *Clock) wall(us int64) time.Time { return time.UnixMicro(c.last.EpochUs + us) }

func (c *Clock) nowUs() int64 {
	at := c.last.NowUs
	var pace float64
	if c.last.Turn == c.ended && !c.last.Paused && json.Unmarshal(c.last.Pace, &pace) == nil {
		at += int64(pace * float64(time.Since(c.came).Microseconds()))
		if c.announced >= 0 && at > c.announced {
			at = c.announced
		}
	}
	c.shownUs = max(c.shownUs, at)
	return c.shownUs
}

func (c *Clock) nextUs() int64 {
	if len(c.timers) == 0 {
		return -1
	}
	return c.timers[0].atUs
}

func (c *Clock) read(lines *bufio.Reader) error {
	for {
		line, err := lines.ReadBytes('\n')
		if err == nil && !bytes.HasPrefix(line, []byte("data: ")) {
			continue
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		defer c.tell()
		if err == nil {
			err = json.Unmarshal(line[6:], &c.last)
			c.came = time.Now()
		}
		c.err = err
		return err
	}
}

func (c *Clock) turns() {
	for {
		c.mu.Lock()
		turn, at, ended := c.last.Turn, c.last.NowUs, c.err != nil
		if !ended && turn == c.ended && c.nextUs() == c.announced {
			c.mu.Unlock()
			<-c.changed
			continue
		}
		fired := false
		for !ended && turn != c.ended && len(c.timers) > 0 && c.timers[0].atUs <= at {
			c.fire(c.timers[0])
			fired = true
		}
		c.mu.Unlock()
		if ended {
			return
		}
		if fired {
			time.Sleep(Settle)
		}
		c.mu.Lock()
		c.ended, c.announced = turn, c.nextUs()
		next, ident := c.announced, c.last.Clock
		c.mu.Unlock()
		c.announce(ident, turn, next)
	}
}

func (c *Clock) fire(t *Timer) {
	c.remove(t)
	if t.call != nil {
		go t.call()
	} else {
		select {
		case t.ch <- c.wall(t.atUs):
		default:
		}
	}
	if t.every > 0 {
		c.start(t, time.Duration(t.every)*time.Microsecond)
	}
}

func (c *Clock) announce(ident string, turn, next int64) {
	body := map[string]any{"clock": ident, "turn": turn}
	if next >= 0 {
		body["next_us"] = next
	}
	data, _ := json.Marshal(body)
	answer, err := c.client.Post(c.server+"/orrery/v1/time/turn", "application/json", bytes.NewReader(data))
	if err == nil {
		answer.Body.Close()
	}
}

func max(a, b int64) int64 {
	if a > b {
		return a
	}
	return b
}
