package accesslog

import (
	"bytes"
	"context"
	"errors"
	"io"
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
