package live

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gdamore/tcell/v3"

	"github.com/whyslow/whyslow/trace"
)

// fakeTTY is a terminal that records what is written to it. It must be made in
// the synctest bubble that uses it.
type fakeTTY struct {
	mu            sync.Mutex
	out           bytes.Buffer
	frames        int
	started       int // Start less Stop
	width, height int
	resized       chan<- bool
	keys          chan []byte
	woken         chan struct{}
}

func newFakeTTY(width, height int) *fakeTTY {
	return &fakeTTY{width: width, height: height, keys: make(chan []byte, 16), woken: make(chan struct{}, 1)}
}

func (f *fakeTTY) Start() error { f.mu.Lock(); defer f.mu.Unlock(); f.started++; return nil }
func (f *fakeTTY) Stop() error  { f.mu.Lock(); defer f.mu.Unlock(); f.started--; return nil }
func (f *fakeTTY) Close() error { return nil }

func (f *fakeTTY) Drain() error {
	select {
	case f.woken <- struct{}{}:
	default:
	}
	return nil
}

func (f *fakeTTY) NotifyResize(c chan<- bool) { f.resized = c }

func (f *fakeTTY) WindowSize() (tcell.WindowSize, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return tcell.WindowSize{Width: f.width, Height: f.height}, nil
}

func (f *fakeTTY) Read(b []byte) (int, error) {
	select {
	case k := <-f.keys:
		return copy(b, k), nil
	case <-f.woken:
		return 0, nil
	}
}

// Write counts the beginnings of synchronised updates (DEC mode 2026), of which
// each drawing has one.
func (f *fakeTTY) Write(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.frames += bytes.Count(b, []byte("\x1b[?2026h"))
	return f.out.Write(b)
}

func (f *fakeTTY) drawn() int { f.mu.Lock(); defer f.mu.Unlock(); return f.frames }

func (f *fakeTTY) written() string { f.mu.Lock(); defer f.mu.Unlock(); return f.out.String() }

// paced yields a recorded trace in its own time.
func (r recorded) paced(ctx context.Context) iter.Seq2[trace.Event, error] {
	return func(yield func(trace.Event, error) bool) {
		r.started = time.Now()
		r.each(func(ev trace.Event) bool {
			select {
			case <-time.After(time.Until(ev.At)):
			case <-ctx.Done():
				return false
			}
			return yield(ev, nil)
		})
	}
}

// shown is a run of the view on a fake terminal.
type shown struct {
	*fakeTTY
	res    *trace.Result
	err    error
	done   chan struct{}
	cancel context.CancelFunc
}

func show(opt Options, tty *fakeTTY) *shown {
	s := &shown{fakeTTY: tty, done: make(chan struct{})}
	opt.Terminal = tty
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	go func() {
		defer close(s.done)
		s.res, s.err = Run(ctx, opt)
	}()
	return s
}

// leave presses a key and waits until the view has gone.
func (s *shown) leave(t *testing.T, key string) {
	t.Helper()
	at := time.Now()
	s.keys <- []byte(key)
	<-s.done
	if took := time.Since(at); took > 200*time.Millisecond {
		t.Errorf("left %v after the key", took)
	}
	if s.started != 0 {
		t.Errorf("the terminal was not given back")
	}
	if !strings.HasSuffix(s.written(), "\x1b[?1004l") && !strings.Contains(s.written(), "\x1b[?1049l") {
		t.Errorf("the screen was not left")
	}
}

// A flood of events is drawn ten times a second, and nothing is drawn when
// nothing happens.
func TestDrawnOnlyWhenSomethingChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flood := recorded{routers: 20, rounds: 200, interval: 20 * time.Millisecond, seed: 1}
		silence := make(chan struct{})
		s := show(Options{Events: func(ctx context.Context) iter.Seq2[trace.Event, error] {
			return func(yield func(trace.Event, error) bool) {
				flood.paced(ctx)(yield)
				close(silence)
				<-ctx.Done()
			}
		}}, newFakeTTY(120, 40))
		<-silence // after 4 s
		n := s.drawn()
		if n < 30 || n > 45 {
			t.Errorf("%d drawings in 4 s", n)
		}
		time.Sleep(time.Second)
		n = s.drawn()
		time.Sleep(time.Hour)
		if more := s.drawn() - n; more != 0 {
			t.Errorf("%d drawings of an idle view", more)
		}
		s.leave(t, "q")
		if s.err != nil || len(s.res.Hops) != 21 || s.res.Hops[20].Received != 200 {
			t.Errorf("error %v, result %+v", s.err, s.res)
		}
	})
}

func TestLeaving(t *testing.T) {
	panics := errors.New("boom")
	for name, leave := range map[string]func(*testing.T, *shown){
		"q":      func(t *testing.T, s *shown) { s.leave(t, "q") },
		"Ctrl-C": func(t *testing.T, s *shown) { s.leave(t, "\x03") },
		"context": func(t *testing.T, s *shown) {
			s.cancel()
			<-s.done
			if !errors.Is(s.err, context.Canceled) {
				t.Errorf("error %v", s.err)
			}
			s.err = nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := show(Options{Events: slowLink(1000).paced}, newFakeTTY(80, 24))
				time.Sleep(3500 * time.Millisecond)
				leave(t, s)
				if s.err != nil || s.started != 0 || s.res.Hops[0].Received != 4 {
					t.Errorf("error %v, terminal %d, %d answers", s.err, s.started, s.res.Hops[0].Received)
				}
			})
		})
	}
	t.Run("error of the trace", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := show(Options{Events: func(context.Context) iter.Seq2[trace.Event, error] {
				return func(yield func(trace.Event, error) bool) { yield(trace.Event{}, panics) }
			}}, newFakeTTY(80, 24))
			<-s.done
			if !errors.Is(s.err, panics) || s.started != 0 {
				t.Errorf("error %v, terminal %d", s.err, s.started)
			}
		})
	})
	t.Run("end of the trace", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := show(Options{Events: slowLink(3).paced}, newFakeTTY(80, 24))
			<-s.done
			if s.err != nil || s.started != 0 || s.res.Hops[8].Received != 3 {
				t.Errorf("error %v, terminal %d, result %+v", s.err, s.started, s.res)
			}
		})
	})
}

// A trace that panicked left the terminal raw, with its message written over
// the table.
func TestTerminalIsGivenBackOnPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tty := newFakeTTY(80, 24)
		defer func() {
			if v := recover(); v == nil || !strings.Contains(v.(string), "boom") {
				t.Errorf("panicked with %v", v)
			}
			if tty.started != 0 {
				t.Error("the terminal was not given back")
			}
		}()
		_, _ = Run(context.Background(), Options{Terminal: tty, Events: func(context.Context) iter.Seq2[trace.Event, error] {
			return func(func(trace.Event, error) bool) { panic("boom") }
		}})
	})
}

// While the view is paused the trace sends nothing, and afterwards goes on.
func TestPauseHoldsTheTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		sent := 0
		r := recorded{routers: 4, rounds: 1000, seed: 1}
		s := show(Options{Events: func(ctx context.Context) iter.Seq2[trace.Event, error] {
			return func(yield func(trace.Event, error) bool) {
				r.paced(ctx)(func(ev trace.Event, err error) bool {
					mu.Lock()
					sent++
					mu.Unlock()
					return yield(ev, err)
				})
			}
		}}, newFakeTTY(80, 24))
		count := func() int { mu.Lock(); defer mu.Unlock(); return sent }
		time.Sleep(2500 * time.Millisecond)
		s.keys <- []byte("p")
		time.Sleep(2 * time.Second)
		n, frames := count(), s.drawn()
		time.Sleep(time.Minute)
		if more := count() - n; more != 0 {
			t.Errorf("%d events while paused", more)
		}
		if more := s.drawn() - frames; more != 0 {
			t.Errorf("%d drawings while paused", more)
		}
		s.keys <- []byte(" ")
		time.Sleep(3 * time.Second)
		if count() <= n {
			t.Error("it does not go on")
		}
		s.keys <- []byte("p")
		time.Sleep(2 * time.Second)
		s.leave(t, "q") // out of a pause too
	})
}

// coloured matches a foreground or background colour (ECMA-48 8.3.117).
var coloured = regexp.MustCompile(`\x1b\[[0-9;:]*\b[34][0-8][0-9;:]*m`)

// NO_COLOR: no colour is sent, only bold, dim and reverse.
func TestWithoutColour(t *testing.T) {
	for _, color := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			t.Setenv("TERM", "xterm-256color")
			t.Setenv("NO_COLOR", "")
			s := show(Options{Events: slowLink(100).paced, Color: color}, newFakeTTY(120, 40))
			time.Sleep(4 * time.Second)
			s.keys <- []byte("jd?")
			time.Sleep(time.Second)
			s.leave(t, "q")
			if got := coloured.MatchString(s.written()); got != color {
				t.Errorf("coloured: %v, want %v", got, color)
			}
		})
	}
}

// Ctrl-Z gives the terminal back before the process stops, and takes it again.
func TestSuspend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tty := newFakeTTY(80, 24)
		stopped := 0
		s := show(Options{Events: slowLink(100).paced, Suspend: func() {
			if stopped++; tty.started != 0 {
				t.Error("the terminal is still ours")
			}
		}}, tty)
		time.Sleep(2 * time.Second)
		s.keys <- []byte("\x1a")
		time.Sleep(2 * time.Second)
		frames := s.drawn()
		time.Sleep(2 * time.Second)
		if stopped != 1 || s.drawn() == frames {
			t.Errorf("stopped %d times, %d drawings since", stopped, s.drawn()-frames)
		}
		s.leave(t, "q")
	})
}

// Many changes of size in a row, down to nothing, neither panic nor block.
func TestTerminalResizeStorm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := show(Options{Events: slowLink(100).paced}, newFakeTTY(80, 24))
		time.Sleep(1500 * time.Millisecond)
		for i := range 300 {
			s.mu.Lock()
			s.width, s.height = 1+i*17%200, 1+i*7%60
			s.mu.Unlock()
			select {
			case s.resized <- true:
			default:
			}
			if i%3 == 0 {
				time.Sleep(7 * time.Millisecond)
			}
			if i%50 == 0 {
				s.keys <- []byte("d")
			}
		}
		s.mu.Lock()
		s.width, s.height = 91, 30
		s.out.Reset()
		s.mu.Unlock()
		s.resized <- true
		time.Sleep(2 * time.Second)
		if !strings.Contains(s.written(), "www.shop.example") {
			t.Error("nothing was drawn at the last size")
		}
		s.leave(t, "q")
	})
}
