package accesslog

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

func gzipped(t *testing.T, parts ...string) string {
	t.Helper()
	var b bytes.Buffer
	for _, p := range parts {
		z := gzip.NewWriter(&b)
		if _, err := z.Write([]byte(p)); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

func zstandard(t *testing.T, s string) string {
	t.Helper()
	var b bytes.Buffer
	z, err := zstd.NewWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := z.Write([]byte(s)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// bzipped is `printf '%s\n' '192.0.2.1 - - [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.1" 200 1' | bzip2`.
const bzipped = "\x42\x5a\x68\x39\x31\x41\x59\x26\x53\x59\xf1\xcc\xf2\xc8\x00\x00\x13\xdf\x80\x00\x10\x50\x03\xfb\xb0\x02\xc0\xc4\x0a\x08\x00\x04\x00\x20\x00\x54\x53\x4d\x06\x83\x40\x34\x03\x54\xcd\x36\xa9\xe9\xa4\x1a\x3d\x4c\x86\xb9\x92\xed\x87\x67\x53\x50\x2c\x26\x53\x1f\x20\xdd\x48\x4b\xb4\xc3\x11\x5f\x62\xf0\xa4\xad\xa5\x10\xf4\x01\x14\xc1\x16\x50\x38\xd8\xf7\xdf\x17\x72\x45\x38\x50\x90\xf1\xcc\xf2\xc8"

func write(t *testing.T, dir, name, content string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCompressionIsToldByContent(t *testing.T) {
	log := combinedLog(3000)
	cut := gzipped(t, log)
	tests := []struct {
		name, content string
		records       int // at least
		whole         bool
		warning       string
	}{
		{"plain, named as if it were not", log, 3000, true, ""},
		{"gzip", gzipped(t, log), 3000, true, ""},
		{"gzip of several members", gzipped(t, log, log, log), 9000, true, ""},
		{"compressed twice", gzipped(t, zstandard(t, log)), 3000, true, ""},
		{"gzip with padding", gzipped(t, log) + strings.Repeat("\x00", 1000), 3000, true, "other data follow"},
		{"gzip cut short", cut[:len(cut)*2/3], 500, false, "gzip data end too early, after line"},
		{"gzip cut within its header", cut[:5], 0, true, "gzip data end too early, after line 0"},
		{"gzip damaged", cut[:len(cut)/2] + "\xff\xff\xff\xff" + cut[len(cut)/2+4:], 100, false, "damaged after line"},
		{"zstd", zstandard(t, log), 3000, true, ""},
		{"zstd of two frames", zstandard(t, log) + zstandard(t, log), 6000, true, ""},
		{"zstd cut short", zstandard(t, log)[:3000], 0, false, "zstd data"},
		{"bzip2", bzipped, 1, true, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f, _ := Named("combined", CompileOptions{})
			opts := Options{Format: f}
			if tt.name == "bzip2" {
				opts.Format, _ = Named("common", CompileOptions{})
			}
			r := NewReader(t.Context(), opts, File(write(t, t.TempDir(), "access.log.1.gz", tt.content)))
			got := len(drain(t, r))
			if got < tt.records || tt.whole && got > tt.records {
				t.Errorf("%d records, want %d", got, tt.records)
			}
			warnings := strings.Join(r.Stats().Warnings, "; ")
			if (warnings != "") != (tt.warning != "") || !strings.Contains(warnings, tt.warning) {
				t.Errorf("warnings %q, want %q", warnings, tt.warning)
			}
		})
	}
}

func TestSetsOrderRotatedFiles(t *testing.T) {
	tests := []struct {
		name  string
		files []string
		want  [][]string
	}{
		{"logrotate", []string{"access.log", "access.log.10.gz", "access.log.2.gz", "access.log.1"},
			[][]string{{"access.log.10.gz", "access.log.2.gz", "access.log.1", "access.log"}}},
		{"dateext", []string{"access.log", "access.log-20261130.zst", "access.log-20261129.gz"},
			[][]string{{"access.log-20261129.gz", "access.log-20261130.zst", "access.log"}}},
		{"dates with hours", []string{"a.log-2026113009", "a.log-2026113010", "a.log"}, [][]string{{"a.log-2026113009", "a.log-2026113010", "a.log"}}},
		{"cronolog", []string{"access.2026-12-01.log", "access.2026-11-30.log"}, [][]string{{"access.2026-11-30.log", "access.2026-12-01.log"}}},
		{"rotatelogs", []string{"access.log.1796083200", "access.log.1795996800"}, [][]string{{"access.log.1795996800", "access.log.1796083200"}}},
		{"old", []string{"access.log", "access.log.old"}, [][]string{{"access.log.old", "access.log"}}},
		{"several logs", []string{"b.log", "a.log.1", "b.log.1", "a.log"}, [][]string{{"b.log.1", "b.log"}, {"a.log.1", "a.log"}}},
		{"an address is no date", []string{"192.0.2.1.log", "192.0.2.2.log"}, [][]string{{"192.0.2.1.log"}, {"192.0.2.2.log"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			var paths []string
			for _, f := range tt.files {
				paths = append(paths, write(t, dir, f, ""))
			}
			sets, duplicates, err := Sets(append(paths, paths[0]))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(paths[:1], duplicates); d != "" {
				t.Errorf("duplicates (-want +got):\n%s", d)
			}
			var got [][]string
			for _, s := range sets {
				var names []string
				for _, src := range s.Sources {
					names = append(names, filepath.Base(src.Name))
				}
				got = append(got, names)
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("sets (-want +got):\n%s", d)
			}
		})
	}
}

func TestOrderBelievesTimesNotNames(t *testing.T) {
	dir := t.TempDir()
	late := write(t, dir, "access.log.2", combinedLine("192.0.2.2", 100))
	early := write(t, dir, "access.log.1", gzipped(t, combinedLine("192.0.2.1", 0)))
	empty := write(t, dir, "access.log", "")
	sets, _, err := Sets([]string{late, early, empty})
	if err != nil {
		t.Fatal(err)
	}
	if err := Order(t.Context(), sets, Options{}); err != nil {
		t.Fatal(err)
	}
	r := NewReader(t.Context(), Options{}, sets[0].Sources...)
	if d := cmp.Diff([]string{"192.0.2.1", "192.0.2.2"}, drain(t, r)); d != "" {
		t.Errorf("clients (-want +got):\n%s", d)
	}
}

// A follower is driven by the waits it makes: each step changes the file while
// it waits at the end.
func TestFollowSeesRotation(t *testing.T) {
	line := func(i int) string { return combinedLine("192.0.2."+string(rune('0'+i)), i) }
	appendTo := func(t *testing.T, path, s string) {
		t.Helper()
		f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(s); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	rename := func(t *testing.T, path string) {
		t.Helper()
		if err := os.Rename(path, path+".1"); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		name  string
		steps []func(t *testing.T, path string)
		want  []string
	}{
		{"growing, a line in two pieces", []func(*testing.T, string){
			func(t *testing.T, p string) { appendTo(t, p, line(2)+line(3)[:20]) },
			func(t *testing.T, p string) { appendTo(t, p, line(3)[20:]) },
		}, []string{"192.0.2.1", "192.0.2.2", "192.0.2.3"}},
		{"renamed, the new file later", []func(*testing.T, string){
			func(t *testing.T, p string) { rename(t, p); appendTo(t, p+".1", line(2)) },
			func(t *testing.T, p string) { appendTo(t, p, line(3)) },
		}, []string{"192.0.2.1", "192.0.2.2", "192.0.2.3"}},
		{"renamed amid a line", []func(*testing.T, string){
			func(t *testing.T, p string) { appendTo(t, p, line(2)[:20]) },
			func(t *testing.T, p string) { rename(t, p); appendTo(t, p, line(3)) },
		}, []string{"192.0.2.1", "192.0.2.3"}},
		{"truncated", []func(*testing.T, string){
			func(t *testing.T, p string) { write(t, filepath.Dir(p), filepath.Base(p), "") },
			func(t *testing.T, p string) { appendTo(t, p, line(2)) },
		}, []string{"192.0.2.1", "192.0.2.2"}},
		{"truncated and longer again before anybody looked", []func(*testing.T, string){
			func(t *testing.T, p string) {
				write(t, filepath.Dir(p), filepath.Base(p), line(2)+line(3)+line(4))
			},
		}, []string{"192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := write(t, t.TempDir(), "access.log", line(1))
			steps := tt.steps
			r := NewReader(t.Context(), Options{}, Follow(path, FollowOptions{Wait: func(context.Context, time.Duration) error {
				if len(steps) == 0 {
					return context.Canceled
				}
				steps[0](t, path)
				steps = steps[1:]
				return nil
			}}))
			if d := cmp.Diff(tt.want, drain(t, r)); d != "" {
				t.Errorf("clients (-want +got):\n%s", d)
			}
		})
	}
}

func TestFollowFromTheEnd(t *testing.T) {
	half := combinedLine("192.0.2.2", 1)
	path := write(t, t.TempDir(), "access.log", combinedLine("192.0.2.1", 1)+half[:9])
	first := true
	r := NewReader(t.Context(), Options{}, Follow(path, FollowOptions{End: true, Wait: func(context.Context, time.Duration) error {
		if !first {
			return context.Canceled
		}
		first = false
		write(t, filepath.Dir(path), "access.log", combinedLine("192.0.2.1", 1)+half)
		return nil
	}}))
	if d := cmp.Diff([]string{"192.0.2.2"}, drain(t, r)); d != "" {
		t.Errorf("clients (-want +got):\n%s", d)
	}
}

func TestFollowEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	path := write(t, t.TempDir(), "access.log", combinedLine("192.0.2.1", 1)+"192.0.2.2 - - [")
	r := NewReader(ctx, Options{}, Follow(path, FollowOptions{Poll: time.Hour}))
	defer r.Close()
	var rec Record
	if err := r.Next(&rec); err != nil || rec.Client.String() != "192.0.2.1" {
		t.Fatalf("the first: %v %v", rec.Client, err)
	}
	time.AfterFunc(0, cancel)
	if err := r.Next(&rec); !errors.Is(err, io.EOF) && !errors.Is(err, context.Canceled) {
		t.Errorf("the end: %v", err)
	}
}

func TestAddresses(t *testing.T) {
	list := "\xef\xbb\xbf192.0.2.1\n# a comment\n\n 2001:db8::1 \t 17 requests\r\n192.0.2.2:443\n[2001:db8::2]:443,x\n::ffff:192.0.2.3 # mapped\nfe80::1%eth0\n" +
		"192.0.2.0/24\nwww.example.com\n7\n\"192.0.2.4\"\n"
	for _, tt := range []struct{ name, text string }{{"plain", list}, {"gzip", gzipped(t, list)}} {
		t.Run(tt.name, func(t *testing.T) {
			var got, wrong []string
			for a, err := range Addresses("list", strings.NewReader(tt.text)) {
				if err != nil {
					wrong = append(wrong, err.Error())
					continue
				}
				got = append(got, a.String())
			}
			want := []string{"192.0.2.1", "2001:db8::1", "192.0.2.2", "2001:db8::2", "192.0.2.3", "fe80::1", "192.0.2.4"}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("addresses (-want +got):\n%s", d)
			}
			want = []string{`accesslog: list:9: "192.0.2.0/24" is a network, not an address`,
				`accesslog: list:10: "www.example.com" is no address`, `accesslog: list:11: "7" is no address`}
			if d := cmp.Diff(want, wrong); d != "" {
				t.Errorf("errors (-want +got):\n%s", d)
			}
		})
	}
}

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

func TestRewriterChangesTheClientOnly(t *testing.T) {
	names := map[string]string{"192.0.2.1": "abc.example.com.", "2001:db8::1": "v6.example.com", "192.0.2.2": "x\" 200 1\n192.0.2.9",
		"192.0.2.3": "198.51.100.1", "192.0.2.4": "7", "192.0.2.5": strings.Repeat("a", 300)}
	lookup := func(a netip.Addr) (string, bool) { n, ok := names[a.String()]; return n, ok }
	rest := ` - - ` + stamp + ` "GET / HTTP/1.1" 200 1`
	tests := []struct{ name, format, in, out string }{
		{"a name that begins with a hex digit", "common", "192.0.2.1" + rest + "\n", "abc.example.com" + rest + "\n"},
		{"names stay", "common", "dead.example.com" + rest + "\r\n", "dead.example.com" + rest + "\r\n"},
		{"7 is not 0.0.0.7", "common", "7" + rest + "\n", "7" + rest + "\n"},
		{"vhost_combined", "vhost_combined", "h.example:80 192.0.2.1" + rest + ` "-" "x"`, "h.example:80 abc.example.com" + rest + ` "-" "x"`},
		{"v6", "common", "2001:db8::1" + rest, "v6.example.com" + rest},
		{"mapped", "common", "::ffff:192.0.2.1" + rest, "abc.example.com" + rest},
		{"no name", "common", "192.0.2.200" + rest + "\n", "192.0.2.200" + rest + "\n"},
		{"a hostile name cannot forge a line", "common", "192.0.2.2" + rest + "\n", `x\x22\x20200\x201\x0a192.0.2.9` + rest + "\n"},
		{"nor in JSON", "json", `{"ip":"192.0.2.2","status":200}`, `{"ip":"x\\x22\\x20200\\x201\\x0a192.0.2.9","status":200}`},
		{"nor be another's address", "common", "192.0.2.3" + rest, "192.0.2.3" + rest},
		{"nor a number", "common", "192.0.2.4" + rest, "192.0.2.4" + rest},
		{"too long", "common", "192.0.2.5" + rest, "192.0.2.5" + rest},
		{"broken lines stay", "common", "192.0.2.1 rubbish\x00\n\n\r\n", "192.0.2.1 rubbish\x00\n\n\r\n"},
		{"NULs before a line stay", "common", "\x00\x00192.0.2.1" + rest + "\n", "\x00\x00abc.example.com" + rest + "\n"},
		{"the port stays", "%a %t", "192.0.2.1:4711 " + stamp, "abc.example.com:4711 " + stamp},
		{"in brackets", "%a %t", "[2001:db8::1]:4711 " + stamp, "v6.example.com:4711 " + stamp},
		{"JSON", "json", `{"status":200, "remote_addr" : "192.0.2.1"}`, `{"status":200, "remote_addr" : "abc.example.com"}`},
		{"longer than any line", "common", strings.Repeat("x", 3*MaxLine) + "\n192.0.2.1" + rest, strings.Repeat("x", 3*MaxLine) + "\nabc.example.com" + rest},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f, err := ParseFormat(tt.format, CompileOptions{})
			if err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			done, err := NewRewriter(f, lookup).Copy(&out, strings.NewReader(tt.in))
			if err != nil {
				t.Fatal(err)
			}
			if out.String() != tt.out {
				t.Errorf("got  %.200q\nwant %.200q", out.String(), tt.out)
			}
			if done.Lines == 0 || done.Named+done.Unnamed+done.Other != done.Lines || (done.Named > 0) != (tt.in != tt.out) {
				t.Errorf("counted %+v", done)
			}
		})
	}
}

// A whole rotated set, of which one is compressed, one lacks its last line end
// and one is damaged, becomes one log with names.
func TestRewriteOfAWholeSet(t *testing.T) {
	first, second := combinedLine("192.0.2.1", 1)+"rubbish\n", strings.TrimSuffix(combinedLine("192.0.2.2", 2), "\n")
	many := combinedLog(3000)
	cut := gzipped(t, many)
	dir := t.TempDir()
	sources := []Source{File(write(t, dir, "a.3", gzipped(t, first))), File(write(t, dir, "a.2", second)), File(write(t, dir, "a.1", "")),
		File(write(t, dir, "a.0", utf8BOM+`{"ip":"192.0.2.3","status":200}`+"\n")), File(write(t, dir, "a", cut[:len(cut)/2]))}
	var out strings.Builder
	done, err := Rewrite(t.Context(), &out, Options{}, func(a netip.Addr) (string, bool) { return "n" + a.String() + ".example", a.String() != "192.0.2.2" }, sources...)
	if err != nil {
		t.Fatal(err)
	}
	got := out.String()
	want := strings.Replace(first, "192.0.2.1", "n192.0.2.1.example", 1) + second + "\n" + utf8BOM + `{"ip":"n192.0.2.3.example","status":200}` + "\n"
	if !strings.HasPrefix(got, want) {
		t.Errorf("got  %.500q\nwant %.500q", got, want)
	}
	back := strings.ReplaceAll(strings.ReplaceAll(got[min(len(got), len(want)):], ".example", ""), "n192.0.2.", "192.0.2.")
	if len(back) < 1000 || !strings.HasPrefix(many, back) {
		t.Errorf("of the damaged file came %d bytes: %.200q", len(back), back)
	}
	if len(done.Warnings) != 1 || !strings.Contains(done.Warnings[0], "unexpected EOF") || done.Unnamed < 2 || done.Other < 1 || done.Named < 10 {
		t.Errorf("%+v", done)
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
