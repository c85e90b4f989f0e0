package accesslog

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"testing"
	"time"
)

// realistic makes n combined lines as a busy site's log has them: several a
// second, of a few hundred addresses, v6 among them, with common browsers.
func realistic(n int) []byte {
	rng := rand.New(rand.NewPCG(1, 2))
	agents := []string{
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36",
		"Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1",
		"curl/8.5.0", "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
	}
	var b bytes.Buffer
	for i := range n {
		addr := netip.AddrFrom4([4]byte{198, 51, byte(rng.IntN(4)), byte(rng.IntN(256))}).String()
		if i%4 == 3 {
			addr = fmt.Sprintf("2001:db8:%x:%x::%x", rng.IntN(16), rng.IntN(8), rng.IntN(65536))
		}
		s := i / 20
		fmt.Fprintf(&b, "%s - - [10/Oct/2000:%02d:%02d:%02d -0700] \"GET /articles/%d/index.html?page=%d HTTP/1.1\" 200 %d \"https://www.example.com/list/%d\" \"%s\"\n",
			addr, s/3600%24, s/60%60, s%60, rng.IntN(5000), rng.IntN(9), rng.IntN(100000), rng.IntN(100), agents[rng.IntN(len(agents))])
	}
	return b.Bytes()
}

// repeated yields a text again and again.
type repeated struct {
	text []byte
	at   int
	left int64
}

func (r *repeated) Read(p []byte) (int, error) {
	if r.left <= 0 {
		return 0, io.EOF
	}
	n := copy(p, r.text[r.at:])
	if r.at += n; r.at == len(r.text) {
		r.at = 0
	}
	r.left -= int64(n)
	return n, nil
}

func benchmarkRead(b *testing.B, opts Options, log []byte) {
	b.Helper()
	lines := bytes.Count(log, []byte("\n"))
	size := int64(len(log)) / int64(lines)
	b.SetBytes(size)
	b.ReportAllocs()
	src := Source{Name: "bench", Open: func(context.Context) (io.ReadCloser, error) {
		return io.NopCloser(&repeated{text: log, left: 1 << 62}), nil
	}}
	r := NewReader(b.Context(), opts, src)
	defer r.Close()
	var rec Record
	for b.Loop() {
		if err := r.Next(&rec); err != nil {
			b.Fatal(err)
		}
	}
	if r.Stats().BrokenLines() > 0 {
		b.Fatalf("broken lines: %v", r.Stats().Kept)
	}
}

func BenchmarkRead(b *testing.B) {
	log := realistic(20000)
	for _, name := range []string{"combined", "nginx_combined"} {
		b.Run(name, func(b *testing.B) {
			f, ok := Named(name, CompileOptions{})
			if !ok {
				b.Fatal("no such format")
			}
			benchmarkRead(b, Options{Format: f}, log)
		})
	}
	b.Run("detected", func(b *testing.B) { benchmarkRead(b, Options{}, log) })
	json := []byte(`{"time_iso8601":"2000-10-10T13:55:36-07:00","remote_addr":"192.0.2.1","remote_user":"","request":"GET /articles/1/index.html?page=2 HTTP/1.1","status":"200","body_bytes_sent":"51234","request_time":"0.100","http_referrer":"https://www.example.com/list/9","http_user_agent":"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36"}` + "\n")
	b.Run("json", func(b *testing.B) { benchmarkRead(b, Options{}, json) })
}

// BenchmarkSorted is what order costs a record, of a log where most requests
// are short and one in a hundred takes a minute.
func BenchmarkSorted(b *testing.B) {
	for _, light := range []bool{false, true} {
		b.Run(fmt.Sprintf("light=%v", light), func(b *testing.B) {
			b.ReportAllocs()
			s := NewSorter(SortOptions{Window: time.Minute, Light: light})
			f, _ := Named("combined", CompileOptions{})
			line := []byte(`192.0.2.1 - - ` + stamp + ` "GET /articles/1/index.html HTTP/1.1" 200 5 "https://www.example.com/list" "Mozilla/5.0 (Windows NT 10.0; Win64; x64)"`)
			var r Record
			if fault := f.NewParser().Parse(line, &r); fault != NoFault {
				b.Fatal(fault)
			}
			begin, i := r.Time, 0
			for b.Loop() {
				r.Time = begin.Add(time.Duration(i) * time.Millisecond)
				if i%100 == 0 {
					r.Time = r.Time.Add(-time.Minute)
				}
				s.Push(&r)
				for s.Pop(false) != nil {
				}
				i++
			}
		})
	}
}

// BenchmarkTallyAt is one observation of a million addresses in turn: what it
// costs is cache misses.
func BenchmarkTallyAt(b *testing.B) {
	const distinct = 1 << 20
	addrs := make([]netip.Addr, distinct)
	for i := range addrs {
		addrs[i] = nth(uint32(i))
	}
	t := NewTally[counts](0)
	for _, a := range addrs {
		t.At(a)
	}
	i := 0
	for b.Loop() {
		t.At(addrs[i*7919&(distinct-1)]).Requests++
		i++
	}
}

// BenchmarkTally reads a log of ten million lines by a million distinct
// addresses of both families, and counts them; B/addr and MB are what the
// process has taken from the system.
func BenchmarkTally(b *testing.B) {
	const distinct, lines = 1_000_000, 10_000_000
	for b.Loop() {
		f, _ := Named("combined", CompileOptions{})
		src := Source{Name: "bench", Open: func(context.Context) (io.ReadCloser, error) {
			return io.NopCloser(&manyClients{distinct: distinct, left: lines}), nil
		}}
		r := NewReader(b.Context(), Options{Format: f}, src)
		t := NewTally[counts](0)
		var rec Record
		for {
			err := r.Next(&rec)
			if err == io.EOF {
				break
			}
			if err != nil {
				b.Fatal(err)
			}
			v := t.At(rec.Client)
			v.Requests++
		}
		if t.Len() != distinct || !t.Exact() || t.Total() != lines {
			b.Fatalf("%d addresses of %d lines, exact %v", t.Len(), t.Total(), t.Exact())
		}
		b.ReportMetric(float64(r.Stats().Bytes)/1e6/b.Elapsed().Seconds(), "MB/s-with-generator")
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		b.ReportMetric(float64(m.Sys)/1e6, "MB-from-the-system")
		_ = r.Close()
	}
}

// manyClients writes combined lines of ever other clients.
type manyClients struct {
	distinct, at uint32
	left         int
	buf          []byte
}

func (m *manyClients) Read(p []byte) (int, error) {
	if m.left == 0 && len(m.buf) == 0 {
		return 0, io.EOF
	}
	if len(m.buf) == 0 {
		buf := m.buf[:0:0]
		for range min(m.left, 2000) {
			buf = nth(m.at % m.distinct).AppendTo(buf)
			buf = append(buf, ` - - [10/Oct/2000:13:55:36 -0700] "GET /articles/17/index.html HTTP/1.1" 200 51234 "https://www.example.com/list" "Mozilla/5.0 (Windows NT 10.0; Win64; x64)"`...)
			buf = append(buf, '\n')
			m.at++
			m.left--
		}
		m.buf = buf
	}
	n := copy(p, m.buf)
	m.buf = m.buf[n:]
	return n, nil
}
