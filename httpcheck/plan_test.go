package httpcheck

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/whyslow/whyslow/internal/millis"
)

// simulate runs a plan against a server that takes cost(connection, request)
// and returns the number of fetches over each connection.
func simulate(o Options, outcome func(conn, n int) (wait time.Duration, kind string)) string {
	o, _ = o.defaults()
	now := time.Unix(0, 0)
	p := plan{opts: &o, begin: now, stall: stallAfter}
	requests := 0
	var out []string
	for conn := 1; p.connect(requests, now); conn++ {
		n := 0
		for {
			n++
			wait, kind := outcome(conn, n)
			requests++
			now = now.Add(wait)
			s := &Sample{Exchanges: []Exchange{{Status: 200, Phases: Phases{Wait: millis.Of(wait)}}}}
			switch kind {
			case "", "cured":
			case "429":
				s.Exchanges[0].Status = 429
			default:
				s.Failure = &Failure{Kind: kind}
			}
			p.note(s, n, kind == "cured", wait)
			if !p.again(n, requests, now) {
				break
			}
		}
		out = append(out, fmt.Sprint(n))
	}
	return strings.Join(out, " ")
}

func TestPlan(t *testing.T) {
	const ms = time.Millisecond
	always := func(d time.Duration, kind string) func(int, int) (time.Duration, string) {
		return func(int, int) (time.Duration, string) { return d, kind }
	}
	request := func(k int, slow, fast time.Duration) func(int, int) (time.Duration, string) {
		return func(_, n int) (time.Duration, string) {
			if n == k {
				return slow, ""
			}
			return fast, ""
		}
	}
	tests := []struct {
		name string
		o    Options
		f    func(conn, n int) (time.Duration, string)
		want string
	}{
		{"fast", Options{}, always(20*ms, ""), "3 3 2 4 3"},
		{"few requests left", Options{MaxRequests: 12}, always(20*ms, ""), "3 3 1"},
		{"thinks 2 s", Options{}, always(2000*ms, ""), "2 1 1"},
		{"thinks 2 s, time enough", Options{Budget: 60 * time.Second}, always(2000*ms, ""), "3 3 2 4 3"},
		{"thinks 5 s, the same each time", Options{}, always(5000*ms, ""), "2 1"},
		{"thinks 4 s or 5 s", Options{}, func(c, _ int) (time.Duration, string) { return time.Duration(5000-1000*(c%2)) * ms, "" }, "2 1 1"},
		{"thinks 20 s", Options{}, always(20_000*ms, ""), "2"},
		{"2 s once a connection", Options{}, request(1, 2000*ms, 1*ms), "3 3 2"},
		{"2 s while logging", Options{}, request(2, 2000*ms, 1*ms), "3 3 2"},
		{"refused", Options{}, always(1*ms, "refused"), "1 1 1 1 1"},
		{"timeout", Options{}, always(10_000*ms, "timeout"), "1"},
		{"bad certificate", Options{}, always(50*ms, "certificate"), "1"},
		{"cured by small segments", Options{}, func(c, _ int) (time.Duration, string) {
			return map[int]time.Duration{1: 6500 * ms, 2: 3000 * ms}[c], map[int]string{1: "cured", 2: "timeout"}[c]
		}, "1 1"},
		{"asked for less", Options{}, always(5*ms, "429"), "3 3"},
		{"now and then", Options{}, func(c, _ int) (time.Duration, string) {
			if c == 2 {
				return 5 * ms, "reset"
			}
			return 20 * ms, ""
		}, "3 1 2 4 3"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := simulate(tt.o, tt.f); got != tt.want {
				t.Errorf("fetches over each connection: got %s, want %s", got, tt.want)
			}
		})
	}
}
