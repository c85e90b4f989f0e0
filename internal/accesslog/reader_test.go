package accesslog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// text is a source of a string.
func text(name, s string) Source {
	return Source{Name: name, Open: func(context.Context) (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(s)), nil
	}}
}

// combinedLine makes the line of a request.
func combinedLine(client string, second int) string {
	return fmt.Sprintf(`%s - - [10/Oct/2000:13:%02d:%02d -0700] "GET /p/%d HTTP/1.1" 200 %d "-" "Mozilla/5.0"`, client, second/60%60, second%60, second, second) + "\n"
}

func combinedLog(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(combinedLine(fmt.Sprintf("192.0.2.%d", i%250+1), i))
	}
	return b.String()
}

func drain(t *testing.T, r *Reader) (clients []string) {
	t.Helper()
	defer r.Close()
	for rec, err := range r.All() {
		if err != nil {
			t.Fatal(err)
		}
		clients = append(clients, rec.Client.String())
	}
	return clients
}

func TestReaderCountsWhatIsBroken(t *testing.T) {
	log := combinedLine("192.0.2.1", 0) + "rubbish\n\n# a comment\n" + combinedLine("192.0.2.2", 1) +
		strings.Repeat("x", MaxLine+10) + "\n" + "\x00\x00" + combinedLine("192.0.2.3", 2) +
		"192.0.2.4 - - \x00\x00\x00\n" + strings.TrimSuffix(combinedLine("192.0.2.5", 3), "\n") + "\r\n" +
		`192.0.2.6 - - [10/Oct/2000:13:`
	r := NewReader(t.Context(), Options{}, text("a.log", log))
	if d := cmp.Diff([]string{"192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.5"}, drain(t, r)); d != "" {
		t.Errorf("clients (-want +got):\n%s", d)
	}
	s := r.Stats()
	if s.Lines != 10 || s.Records != 4 || s.Blank != 2 || s.BrokenLines() != 4 || s.Bytes != int64(len(log)) {
		t.Errorf("stats %+v", s)
	}
	var kept []string
	for _, b := range s.Kept {
		kept = append(kept, fmt.Sprintf("%s:%d %v %d", b.Source, b.Number, b.Fault, len(b.Text)))
	}
	want := []string{"a.log:2 ends before the format does 7", "a.log:6 longer than 1 MiB 512", "a.log:8 NUL bytes 17", "a.log:10 ends before the format does 30"}
	if d := cmp.Diff(want, kept); d != "" {
		t.Errorf("broken lines (-want +got):\n%s", d)
	}
	if len(s.Warnings) != 1 || !strings.Contains(s.Warnings[0], "NUL bytes before lines") {
		t.Errorf("warnings %q", s.Warnings)
	}
}

// A server that does not append, after copytruncate: the file begins with a
// hole as long as it was before.
func TestHoleBeforeTheLines(t *testing.T) {
	r := NewReader(t.Context(), Options{}, text("hole", strings.Repeat("\x00", 3*MaxLine)+combinedLine("192.0.2.1", 1)))
	if d := cmp.Diff([]string{"192.0.2.1"}, drain(t, r)); d != "" {
		t.Errorf("clients (-want +got):\n%s", d)
	}
	if s := r.Stats(); s.Lines != 1 || len(s.Warnings) != 1 {
		t.Errorf("stats %+v", s)
	}
}

func TestReaderRefusesWhatIsNoLog(t *testing.T) {
	wide := func(s string) string {
		var b strings.Builder
		for _, c := range []byte(s) {
			b.WriteByte(c)
			b.WriteByte(0)
		}
		return b.String()
	}
	tests := []struct{ name, text, want string }{
		{"xz", "\xfd7zXZ\x00\x00\x04", "compressed with xz"},
		{"zip", "PK\x03\x04\x14\x00", "compressed with zip"},
		{"UTF-16 with its mark", "\xff\xfe" + wide(combinedLog(2)), "UTF-16 text"},
		{"UTF-16 without", wide(combinedLog(2)), "UTF-16 text"},
		{"binary", strings.Repeat("\x7fELF\x01\x02\x00\x00\x05", 50), "binary data"},
		{"old line ends", strings.ReplaceAll(combinedLog(3), "\n", "\r"), "carriage returns alone"},
		{"another text", "once upon\na time\n", "format of another text is not known"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := NewReader(t.Context(), Options{}, text(tt.name, tt.text))
			defer r.Close()
			var rec Record
			err := r.Next(&rec)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
			if again := r.Next(&rec); !errors.Is(again, err) {
				t.Errorf("a second Next: %v", again)
			}
		})
	}
}
