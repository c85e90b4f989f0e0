package accesslog

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestSortedByReceipt(t *testing.T) {
	slow := func(client, second, took string) string {
		return client + ` [10/Oct/2000:13:55:` + second + ` -0700] ` + took + "\n"
	}
	f, err := CompileApache(`%h %t %D`, CompileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// A slow request stands where it was done; another log runs beside; one
	// line is a minute late, further than the window.
	one := NewReader(t.Context(), Options{Format: f}, text("one", slow("192.0.2.1", "10", "1")+slow("192.0.2.3", "30", "1")+slow("192.0.2.2", "20", "10000000")+slow("192.0.2.5", "59", "1")+slow("192.0.2.9", "00", "59000000")))
	two := NewReader(t.Context(), Options{Format: f}, text("two", slow("192.0.2.4", "40", "1")))
	for _, light := range []bool{false, true} {
		t.Run(map[bool]string{false: "whole", true: "light"}[light], func(t *testing.T) {
			s := NewSorter(SortOptions{Window: 25 * time.Second, Light: light})
			var got []string
			for r, err := range Sorted(t.Context(), s, one, two) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, r.Client.String())
				if (r.Line == nil) != light {
					t.Errorf("line %q", r.Line)
				}
			}
			want := []string{"192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.9", "192.0.2.4", "192.0.2.5"}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("clients (-want +got):\n%s", d)
			}
			if s.Late() != 1 {
				t.Errorf("%d late, want 1", s.Late())
			}
		})
		one = NewReader(t.Context(), Options{Format: f}, text("one", slow("192.0.2.1", "10", "1")+slow("192.0.2.3", "30", "1")+slow("192.0.2.2", "20", "10000000")+slow("192.0.2.5", "59", "1")+slow("192.0.2.9", "00", "59000000")))
		two = NewReader(t.Context(), Options{Format: f}, text("two", slow("192.0.2.4", "40", "1")))
	}
}

// Whatever the window, no more are held than is allowed.
func TestSorterHoldsNoMoreThanItMay(t *testing.T) {
	s := NewSorter(SortOptions{Window: time.Hour, Most: 3})
	n := 0
	for i := range 100 {
		s.Push(&Record{Has: FieldTime, Time: time.Unix(int64(i), 0)})
		for s.Pop(false) != nil {
			n++
		}
	}
	if n != 97 {
		t.Errorf("%d of 100 came out, want all but 3", n)
	}
}

// Of several logs each is read only as far as the others have come: no record
// is late, however small the window.
func TestLogsAreReadSideBySide(t *testing.T) {
	t.Run("Apache", func(t *testing.T) { sideBySide(t, "combined") })
	// Whose times are of the end, and no duration says when it began.
	t.Run("nginx", func(t *testing.T) { sideBySide(t, "nginx_combined") })
}

func sideBySide(t *testing.T, format string) {
	t.Helper()
	f, ok := Named(format, CompileOptions{})
	if !ok {
		t.Fatal("no such format")
	}
	log := func(from int) *Reader {
		s := ""
		for i := from; i < 3000; i += 100 {
			s += combinedLine("192.0.2.1", i)
		}
		return NewReader(t.Context(), Options{Format: f}, text("log", s))
	}
	s := NewSorter(SortOptions{Window: time.Second})
	n, last := 0, time.Time{}
	for r, err := range Sorted(t.Context(), s, log(0), log(33), log(66)) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Time.Before(last) {
			t.Errorf("%v after %v", r.Time, last)
		}
		last = r.Time
		n++
	}
	if n != 90 || s.Late() != 0 {
		t.Errorf("%d records, %d late", n, s.Late())
	}
}

func TestReceived(t *testing.T) {
	tests := []struct {
		name, format, line string
		want               string
	}{
		{"Apache has the receipt", "%h %t %D", "192.0.2.1 " + stamp + " 2000000", utc},
		{"its end: time is another", "%h %{end:sec}t %D", "192.0.2.1 971211338 2000000", utc},
		{"nginx has the end", "$remote_addr [$time_local] $request_time", "192.0.2.1 [10/Oct/2000:13:55:38 -0700] 2.000", utc},
		{"and no duration", "$remote_addr [$time_local]", "192.0.2.1 " + stamp, ""},
		{"no time", "%h", "192.0.2.1", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f, err := ParseFormat(tt.format, CompileOptions{})
			if err != nil {
				t.Fatal(err)
			}
			var r Record
			if fault := f.NewParser().Parse([]byte(tt.line), &r); fault != NoFault {
				t.Fatal(fault)
			}
			got := ""
			if when, ok := r.Received(); ok {
				got = when.Format(time.RFC3339)
			}
			if got != tt.want {
				t.Errorf("received %q, want %q", got, tt.want)
			}
		})
	}
}

// The queue gives back what it was given, in order, whatever the order was.
func TestQueueSorts(t *testing.T) {
	x := uint32(7)
	for _, n := range []int{1, 2, 5, 6, 100, 5000} {
		var q queue
		for i := range n {
			x = x*1664525 + 1013904223
			q.push(waiting{when: int64(x >> 20 % 97), seq: uint64(i)})
		}
		last := q.pop()
		for range n - 1 {
			next := q.pop()
			if !last.before(next) {
				t.Fatalf("of %d: %v after %v", n, next, last)
			}
			last = next
		}
		if len(q) != 0 {
			t.Errorf("%d left of %d", len(q), n)
		}
	}
}
