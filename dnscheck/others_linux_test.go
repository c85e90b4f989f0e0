// Beside other work the moments at which musl asks again differ, so this is run
// by hand: go test -tags stubs ./dnscheck -run AgainstMuslAndGo

//go:build linux && stubs

package dnscheck

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// These tests hold the models of musl and of Go against the real ones, as
// TestAgainstGlibc does: getaddrinfo of a program linked with musl, and the
// resolver of package net.

// otherCase is one resolv.conf and name, put to both.
type otherCase struct{ Name, Conf, Query string }

const (
	dead1     = "nameserver 127.0.1.1\n"
	dead2     = dead1 + "nameserver 127.0.1.20\n"
	dead3     = dead2 + "nameserver 127.0.1.21\n"
	alive     = "nameserver 127.0.1.2\n"
	oneSecond = "options timeout:1"
)

var otherCases = []otherCase{
	{"healthy", alive, "www.example.com"},
	{"one dead", dead1 + oneSecond, "www.example.com"},
	{"two dead", dead2 + oneSecond, "www.example.com"},
	{"three dead", dead3 + oneSecond, "www.example.com"},
	{"dead first", dead1 + alive + oneSecond, "www.example.com"},
	{"closed first", "nameserver 127.0.1.8\n" + alive + oneSecond, "www.example.com"},
	{"closed only", "nameserver 127.0.1.8\n" + oneSecond, "www.example.com"},
	{"one attempt of 2 s", dead1 + "options timeout:2 attempts:1", "www.example.com"},
	{"three attempts", dead1 + oneSecond + " attempts:3", "www.example.com"},
	{"AAAA dropped", "nameserver 127.0.1.5\n" + oneSecond, "www.example.com"},
	{"A dropped", "nameserver 127.0.1.6\n" + oneSecond, "www.example.com"},
	{"ndots 5 and three suffixes", alive + "search a.example b.example c.example\noptions ndots:5", "www.example.com"},
	{"dots enough", alive + "search a.example b.example", "no.example.com"},
	{"dead with search", dead1 + "search a.example\noptions ndots:5 timeout:1 attempts:1", "www.example.com"},
	{"SERVFAIL only", "nameserver 127.0.1.3\n" + oneSecond, "www.example.com"},
	{"SERVFAIL first", "nameserver 127.0.1.3\n" + alive + oneSecond, "www.example.com"},
	{"SERVFAIL of AAAA", "nameserver 127.0.1.11\n" + oneSecond, "www.example.com"},
	{"REFUSED first", "nameserver 127.0.1.4\n" + alive + oneSecond, "www.example.com"},
	{"REFUSED only", "nameserver 127.0.1.4\n" + oneSecond, "www.example.com"},
	{"referral first", "nameserver 127.0.1.9\n" + alive + oneSecond, "www.example.com"},
	{"truncated", "nameserver 127.0.1.7\n" + oneSecond, "www.example.com"},
	{"truncated, TCP blocked", "nameserver 127.0.1.17\n" + oneSecond, "www.example.com"},
	{"slow", "nameserver 127.0.1.10\noptions timeout:2", "www.example.com"},
	{"absolute", alive + "search a.example\noptions ndots:5", "www.example.com."},
	{"use-vc", alive + "options use-vc", "www.example.com"},
	{"single-request", alive + "options single-request", "www.example.com"},
}

const muslProgram = `#include <netdb.h>
#include <sys/socket.h>
int main(int n, char **arg) {
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
	return n != 2 || getaddrinfo(arg[1], 0, &hints, &found) != 0;
}
`

// buildMusl compiles the program and returns where it is.
func buildMusl(t *testing.T) string {
	gcc, err := exec.LookPath("musl-gcc")
	if err != nil {
		if os.Getenv("WHYSLOW_REQUIRE_LAB") != "" {
			t.Fatal(err)
		}
		return ""
	}
	dir := t.TempDir()
	source, program := filepath.Join(dir, "ask.c"), filepath.Join(dir, "ask")
	if err := os.WriteFile(source, []byte(muslProgram), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(gcc, "-static", "-o", program, source).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return program
}

func TestAgainstMuslAndGo(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	musl := buildMusl(t)
	models := []Model{Musl, Go}
	if musl == "" {
		models = models[1:] // no compiler for it here; continuous integration has one
	}
	results := map[string]*stubPair{}
	slots := make(chan struct{}, 12)
	var wg sync.WaitGroup
	for _, m := range models {
		for i, c := range otherCases {
			p := &stubPair{race: m == Musl}
			results[string(m)+"/"+c.Name] = p
			dirs := [2]string{t.TempDir(), t.TempDir()}
			wg.Go(func() {
				slots <- struct{}{}
				defer func() { <-slots }()
				for range 3 { // as in TestAgainstGlibc
					var both sync.WaitGroup
					var other error
					both.Go(func() {
						p.real, p.err = stubChild(t.Context(), "TestOtherChild", i, "real "+string(m)+" "+musl, dirs[0])
					})
					both.Go(func() { p.stub, other = stubChild(t.Context(), "TestOtherChild", i, "stub "+string(m), dirs[1]) })
					both.Wait()
					if p.err = errors.Join(p.err, other); p.err != nil || p.diff() == "" {
						return
					}
				}
			})
		}
	}
	wg.Wait()
	for name, p := range results {
		t.Run(name, func(t *testing.T) {
			switch {
			case errors.Is(p.err, errNoNamespaces) && os.Getenv("WHYSLOW_REQUIRE_LAB") == "":
				t.Skip(p.err)
			case p.err != nil:
				t.Fatal(p.err)
			}
			t.Logf("really %v, model %v", p.real.Elapsed, p.stub.Elapsed)
			if d := p.diff(); d != "" {
				t.Error(d)
			}
		})
	}
}

// stubPair is one case done by the real resolver and by the model.
type stubPair struct {
	real, stub glibcRun
	err        error
	// race says that how often a server is asked again hangs on moments: musl
	// asks in waves, and a busy machine may have one more or less.
	race bool
}

// diff says where the two disagree, "" if nowhere: 5 % of the time, and 60 ms
// for starting a program.
func (p *stubPair) diff() string {
	if p.real.Found != p.stub.Found {
		return fmt.Sprintf("name found: really %v, by the model %v", p.real.Found, p.stub.Found)
	}
	if p.race {
		p.real.Queries, p.stub.Queries = slices.Compact(p.real.Queries), slices.Compact(p.stub.Queries)
	}
	if d := cmp.Diff(p.real.Queries, p.stub.Queries); d != "" {
		return "queries (-real +model):\n" + d
	}
	if d := (p.real.Elapsed - p.stub.Elapsed).Abs(); d > p.real.Elapsed/20+60*time.Millisecond {
		return fmt.Sprintf("really %v, by the model %v", p.real.Elapsed, p.stub.Elapsed)
	}
	return ""
}

// TestOtherChild is not a test of its own: it is the child of
// TestAgainstMuslAndGo.
func TestOtherChild(t *testing.T) {
	i, ok := childCase()
	if !ok {
		t.Skip("run by TestAgainstMuslAndGo")
	}
	c := otherCases[i]
	enterCase(t, c.Conf)
	who := strings.Fields(os.Getenv("WHYSLOW_GLIBC_WHO"))
	found := false
	reportRun(t, &found, func() {
		switch {
		case who[0] == "stub":
			s, err := Resolve(t.Context(), Options{Name: c.Query, Model: Model(who[1]), NoHosts: true})
			if err != nil {
				t.Error(err)
				return
			}
			found = len(s.Addrs) > 0
		case Model(who[1]) == Go:
			r := net.Resolver{PreferGo: true}
			addrs, err := r.LookupIPAddr(t.Context(), c.Query)
			found = err == nil && len(addrs) > 0
		default:
			found = exec.Command(who[2], c.Query).Run() == nil
		}
	})
}
