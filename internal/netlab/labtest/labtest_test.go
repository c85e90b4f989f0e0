package labtest_test

import (
	"runtime"
	"testing"

	"github.com/whyslow/whyslow/internal/netlab/labtest"
)

// recorder is a TB that notes how the test ended, and ends the goroutine as a
// real one does.
type recorder struct {
	testing.TB
	ended string
}

func (r *recorder) Helper()               {}
func (r *recorder) Skip(...any)           { r.end("skip") }
func (r *recorder) Fatal(...any)          { r.end("fail") }
func (r *recorder) Fatalf(string, ...any) { r.end("fail") }

func (r *recorder) end(how string) {
	r.ended = how
	runtime.Goexit()
}

// ended runs f as a test and says how it ended.
func ended(f func(testing.TB)) string {
	r := &recorder{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(r)
	}()
	<-done
	return r.ended
}

func TestSkipIsFailureWhereALabIsRequired(t *testing.T) {
	for value, want := range map[string]string{"1": "fail", "": "skip"} {
		t.Setenv(labtest.Required, value)
		if got := ended(func(tb testing.TB) { labtest.Skip(tb, "reason") }); got != want {
			t.Errorf("with %s=%q: %q, want %q", labtest.Required, value, got, want)
		}
	}
}

func TestNeedDoesNotPassOutside(t *testing.T) {
	t.Setenv(labtest.Required, "1")
	if got := ended(func(tb testing.TB) { labtest.Need(tb) }); got != "fail" {
		t.Errorf("a test outside went on: %q", got)
	}
}
