package httpcheck

import (
	"testing"
	"time"

	"github.com/whyslow/whyslow/internal/millis"
)

func TestClassify(t *testing.T) {
	ms := func(n int) millis.Value { return millis.Of(time.Duration(n) * time.Millisecond) }
	type marks struct {
		bytes, before            int64
		rtt, rcvRTT, receive     int
		pauses, paused, longest  int
		disorderBefore, disorder int
		noTCP                    bool
	}
	tests := []struct {
		name string
		m    marks
		want string
	}{
		{"no body", marks{rtt: 20}, "none"},
		{"one burst", marks{bytes: 5000, rtt: 20, receive: 1}, "clean"},
		{"slow start over a long way", marks{bytes: 200_000, rtt: 100, rcvRTT: 104, receive: 420, pauses: 4, paused: 390, longest: 101}, "clean"},
		{"measured: clean", marks{bytes: 500_000, rtt: 20, rcvRTT: 22, receive: 110, pauses: 5, paused: 90, longest: 20}, "clean"},
		{"measured: drip", marks{bytes: 100_000, rtt: 20, rcvRTT: 21, receive: 1000, pauses: 40, paused: 760, longest: 25}, "drip"},
		{"measured: slow link", marks{bytes: 1_000_000, rtt: 20, rcvRTT: 60, receive: 800, pauses: 5, paused: 90, longest: 20}, "link-limited"},
		{"measured: 2 % loss", marks{bytes: 1_000_000, rtt: 20, rcvRTT: 24, receive: 2000, pauses: 30, paused: 1500, longest: 250, disorder: 2104}, "loss"},
		{"disorder from before", marks{bytes: 1_000_000, rtt: 20, rcvRTT: 22, receive: 140, pauses: 6, paused: 100, longest: 20, disorder: 7, disorderBefore: 7}, "clean"},
		{"disorder that cost nothing", marks{bytes: 1_000_000, rtt: 20, rcvRTT: 22, receive: 140, pauses: 6, paused: 100, longest: 20, disorder: 7}, "clean"},
		{"one long pause", marks{bytes: 50_000, rtt: 20, rcvRTT: 21, receive: 2050, pauses: 2, paused: 2020, longest: 2000}, "drip"},
		{"one pause as long as a retransmission", marks{bytes: 50_000, rtt: 20, rcvRTT: 21, receive: 320, pauses: 2, paused: 290, longest: 260}, "undetermined"},
		{"pauses and a queue", marks{bytes: 50_000, rtt: 20, rcvRTT: 90, receive: 1000, pauses: 20, paused: 900, longest: 60}, "undetermined"},
		{"steady and slow", marks{bytes: 1_000_000, rtt: 60, rcvRTT: 80, receive: 2106, pauses: 1, paused: 36, longest: 36}, "undetermined"},
		{"steady, slow and disordered", marks{bytes: 1_000_000, rtt: 60, rcvRTT: 80, receive: 2106, pauses: 1, paused: 36, longest: 36, disorder: 9}, "undetermined"},
		{"loss that fast recovery softens", marks{bytes: 1_000_000, rtt: 60, rcvRTT: 60, receive: 695, pauses: 7, paused: 440, longest: 69, disorder: 590}, "loss"},
		{"slow start on an open window", marks{bytes: 1_000_000, before: 1_000_000, rtt: 100, rcvRTT: 104, receive: 500, pauses: 5, paused: 450, longest: 104}, "drip"},
		{"no TCP_INFO", marks{bytes: 50_000, receive: 1000, pauses: 20, paused: 900, longest: 60, noTCP: true}, "undetermined"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := tt.m
			x := &Exchange{
				Bytes:    m.bytes,
				Phases:   Phases{Receive: ms(m.receive)},
				Gaps:     &Gaps{Pauses: m.pauses, PausedTotal: ms(m.paused), LongestPause: ms(m.longest)},
				TCPStart: &TCP{MinRTT: ms(m.rtt), OutOfOrder: m.disorderBefore, BytesIn: m.before},
				TCP:      &TCP{MinRTT: ms(m.rtt), RcvRTT: ms(m.rcvRTT), OutOfOrder: m.disorder, RcvMSS: 1448},
			}
			if m.noTCP {
				x.TCP, x.TCPStart = nil, nil
			}
			if got := Classify(x); got.Class != tt.want {
				t.Errorf("got %+v, want %s", got, tt.want)
			}
		})
	}
}

func TestSlowStartRounds(t *testing.T) {
	for _, tt := range []struct {
		bytes int64
		mss   int
		want  int
	}{
		{0, 1448, 0}, {1, 1448, 0}, {14480, 1448, 0}, {14481, 1448, 1}, {3 * 14480, 1448, 1}, {3*14480 + 1, 1448, 2},
		{100_000, 1448, 2}, {1_000_000, 1448, 6}, {100, 0, 0}, {1 << 62, 1, 40},
	} {
		if got := SlowStartRounds(tt.bytes, tt.mss); got != tt.want {
			t.Errorf("SlowStartRounds(%d, %d) = %d, want %d", tt.bytes, tt.mss, got, tt.want)
		}
	}
}

// It said "0.1573 ms for 1 bytes".
func TestBodyTextCountsOneByte(t *testing.T) {
	x := Exchange{Bytes: 1, Gaps: &Gaps{}, Phases: Phases{Receive: millis.Of(157300 * time.Nanosecond)},
		TCP: &TCP{MinRTT: msv(20)}, TCPStart: &TCP{MinRTT: msv(20)}}
	want := Body{"clean", "0.16 ms for 1 byte, no longer than round trips of 20.0 ms explain"}
	if got := Classify(&x); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
