package httpcheck

import (
	"context"
	"io"
	"net"
	"testing"
	"time"
)

// Server-sent events are listened to for a moment; how long one listens is no
// time of the server's.
func TestStreamIsNotWaitedFor(t *testing.T) {
	s := newServer(t)
	s.start(afterRequest(func(c net.Conn) {
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: Text/Event-Stream; charset=utf-8\r\n\r\n")
		for range 1000 {
			if _, err := io.WriteString(c, "data: x\n\n"); err != nil {
				return
			}
			s.pause(50 * time.Millisecond)
		}
	}))
	o := options(s.url("http", "/"))
	o.BodyTime = 20 * time.Second
	begin := time.Now()
	r := run(t, o)
	x := onlyExchange(t, r)
	if x.Truncated != "stream" || x.Failure != nil || r.Body.Class != "none" {
		t.Errorf("truncated %q, failure %+v, body %+v", x.Truncated, x.Failure, r.Body)
	}
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("took %v", took)
	}
	if len(r.Warnings) != 1 {
		t.Errorf("warnings %q, want one that says so", r.Warnings)
	}
}

// late is a context whose deadline has passed and whose own timer has not
// fired yet, as it is for some microseconds after a socket's has.
type late struct{ context.Context }

func (late) Deadline() (time.Time, bool) { return time.Now().Add(-time.Millisecond), true }

// What the caller's deadline ends was interrupted; the server did not time out.
func TestDeadlineOfTheCallerIsNoTimeoutOfTheServer(t *testing.T) {
	st := stamp{start: time.Now(), phase: "connect", since: time.Now()}
	if f := st.failure(late{t.Context()}, context.DeadlineExceeded); f.Kind != "canceled" {
		t.Errorf("kind %q, want canceled", f.Kind)
	}
	if f := st.failure(t.Context(), context.DeadlineExceeded); f.Kind != "timeout" {
		t.Errorf("kind %q, want timeout", f.Kind)
	}
}
