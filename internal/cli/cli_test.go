package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whyslow/whyslow/internal/netlab"
)

// TestMain lets the demo, which runs its own program again inside a network,
// find the command line there and not the tests.
func TestMain(m *testing.M) {
	if netlab.Inside() {
		os.Exit(Run(context.Background(), Host(), os.Args[1:]))
	}
	os.Exit(m.Run())
}

// ran is what a command line did.
type ran struct {
	status   int
	out, err string
}

func run(t *testing.T, args ...string) ran {
	t.Helper()
	return runEnv(t, context.Background(), Env{}, args...)
}

func runEnv(t *testing.T, ctx context.Context, env Env, args ...string) ran {
	t.Helper()
	var out, errs bytes.Buffer
	env.Out, env.Err = &out, &errs
	status := Run(ctx, env, args)
	return ran{status, out.String(), errs.String()}
}

// golden compares with a file in testdata, which UPDATE_GOLDEN=1 rewrites.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("UPDATE_GOLDEN") == "1" {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	wantText := strings.ReplaceAll(string(want), "\r\n", "\n")
	if diff := cmp.Diff(wantText, got); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s", path, diff)
	}
}

func TestHelp(t *testing.T) {
	for _, name := range []string{"", "report", "trace", "pmtu", "dns", "http", "show", "demo", "doctor", "version"} {
		t.Run("whyslow "+name, func(t *testing.T) {
			args := []string{"--help"}
			file := "help/whyslow.txt"
			if name != "" {
				args, file = []string{name, "--help"}, "help/"+name+".txt"
			}
			got := run(t, args...)
			if got.status != statusOK || got.err != "" {
				t.Errorf("status %d, stderr %q", got.status, got.err)
			}
			for n, line := range strings.Split(got.out, "\n") {
				if len([]rune(line)) > helpWidth {
					t.Errorf("line %d is %d columns wide: %s", n+1, len(line), line)
				}
			}
			golden(t, file, got.out)
			if name != "" {
				if again := run(t, "help", name); again.out != got.out {
					t.Error("help COMMAND and COMMAND --help differ")
				}
			}
		})
	}
}

func TestNoArgumentsShowHelp(t *testing.T) {
	got := run(t)
	if got.status != statusOK || !strings.Contains(got.out, "Commands:") {
		t.Errorf("status %d, output %q", got.status, got.out)
	}
}

// Each usage error exits 64, measures nothing, names what is wrong, and points
// to help.
func TestUsageErrors(t *testing.T) {
	tests := []struct {
		name string
		args []string
		want string
	}{
		{"no such command", []string{"reprot"}, `"reprot" is no command; did you mean report?`},
		{"a URL without a command", []string{"https://www.example.com/"}, "whyslow report https://www.example.com/"},
		{"help for no command", []string{"help", "nothing"}, `"nothing" is no command`},
		{"flag before the command", []string{"--json"}, "flags follow the command"},
		{"mistyped flag", []string{"trace", "--max-hosp", "3", "192.0.2.1"}, "did you mean --max-hops?"},
		{"unknown letter", []string{"pmtu", "-Z", "192.0.2.1"}, "-Z: no such flag"},
		{"flag without its value", []string{"trace", "192.0.2.1", "-m"}, "-m, --max-hops needs a value: N"},
		{"no duration", []string{"report", "--max-time", "soon", "192.0.2.1"}, `--max-time: "soon" is no duration`},
		{"NaN seconds", []string{"report", "--max-time", "NaN", "192.0.2.1"}, "--max-time:"},
		{"negative duration", []string{"trace", "-w", "-1", "192.0.2.1"}, "-w, --wait:"},
		{"too long", []string{"trace", "--max-time", "2h", "192.0.2.1"}, "outside"},
		{"no address", []string{"trace", "--source", "here", "192.0.2.1"}, `--source: "here" is no IP address`},
		{"source of the other family", []string{"trace", "-6", "--source", "192.0.2.1", "2001:db8::1"}, "--source:"},
		{"both families", []string{"report", "-4", "-6", "192.0.2.1"}, "-4, --ipv4 and -6, --ipv6"},
		{"no port", []string{"trace", "-p", "0", "192.0.2.1"}, "-p, --port:"},
		{"port too large", []string{"trace", "-p", "65536", "192.0.2.1"}, "-p, --port:"},
		{"too many probes", []string{"trace", "-q", "11", "192.0.2.1"}, "-q, --queries:"},
		{"two methods", []string{"trace", "-I", "-T", "192.0.2.1"}, "-I, -U and -T"},
		{"no format", []string{"report", "--format", "pdf", "192.0.2.1"}, "--format:"},
		{"no colour", []string{"report", "--color", "blue", "192.0.2.1"}, "--color:"},
		{"unknown extension", []string{"report", "-o", "x.pdf", "192.0.2.1"}, "-o, --output:"},
		{"directory missing", []string{"report", "-o", "no/such/dir/x.html", "192.0.2.1"}, "-o, --output:"},
		{"no such resolv.conf", []string{"dns", "--resolv-conf", "no-such-file", "www.example.com"}, "--resolv-conf:"},
		{"no such CA file", []string{"http", "--cacert", "no-such-file", "https://192.0.2.1/"}, "--cacert:"},
		{"CA file without certificate", []string{"http", "--cacert", "cli.go", "https://192.0.2.1/"}, "no PEM certificate"},
		{"no budget", []string{"report", "--budget", "endless", "192.0.2.1"}, "--budget:"},
		{"no grade", []string{"report", "--fail-on", "ok", "192.0.2.1"}, "--fail-on:"},
		{"no target", []string{"report"}, "no URL given"},
		{"two targets", []string{"pmtu", "192.0.2.1", "192.0.2.2"}, "one host at a time"},
		{"several live", []string{"trace", "--live", "192.0.2.1", "192.0.2.2"}, "--live"},
		{"the paths to several", []string{"trace", "--paths", "8", "192.0.2.1", "192.0.2.2"}, "--paths looks for the paths to one host"},
		{"several on one page", []string{"trace", "--format", "html", "192.0.2.1", "192.0.2.2"}, "html holds one trace"},
		{"another scheme", []string{"report", "ftp://www.example.com/"}, "must be http or https"},
		{"escapes in a host", []string{"http", "ex\x1b[31mample.com"}, "neither a host nor a URL"},
		{"space in a host", []string{"trace", "www example.com"}, "www example.com"},
		{"URL port", []string{"http", "http://192.0.2.1:99999/"}, "99999"},
		{"header without colon", []string{"http", "-H", "Accept", "http://192.0.2.1/"}, "-H, --header:"},
		{"header injection", []string{"http", "-H", "A: b\r\nC: d", "http://192.0.2.1/"}, "-H, --header:"},
		{"no method", []string{"http", "-X", "GE T", "http://192.0.2.1/"}, "-X, --request:"},
		{"HEAD and a method", []string{"http", "-I", "-X", "GET", "http://192.0.2.1/"}, "-I, --head"},
		{"no name", []string{"dns"}, "no name given"},
		{"only a server", []string{"dns", "@192.0.2.53"}, "no name given"},
		{"server by name", []string{"dns", "www.example.com", "@ns.example.com"}, "@ns.example.com"},
		{"unmeasured type", []string{"dns", "www.example.com", "MX"}, `"MX"`},
		{"reverse of a name", []string{"dns", "-x", "www.example.com"}, "is no address"},
		{"too many servers", []string{"dns", "example.com", "@192.0.2.1", "@192.0.2.2", "@192.0.2.3", "@192.0.2.4"}, "3 servers at most"},
		{"type of the other family", []string{"dns", "-4", "www.example.com", "AAAA"}, "-4, -6"},
		{"no saved file", []string{"show", "no-such-file.json"}, "no-such-file.json"},
		{"no scenario", []string{"demo", "dead-resolvr"}, "did you mean dead-resolver?"},
		{"scenario and all", []string{"demo", "--all", "healthy"}, "--all"},
		{"HTML of a table", []string{"demo", "--all", "--format", "html"}, "--format"},
		{"argument to version", []string{"version", "1"}, "takes no argument"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := run(t, tt.args...)
			if got.status != statusUsage {
				t.Errorf("status %d, want %d", got.status, statusUsage)
			}
			if got.out != "" {
				t.Errorf("a usage error printed to stdout: %q", got.out)
			}
			if !strings.Contains(got.err, tt.want) {
				t.Errorf("stderr %q does not say %q", got.err, tt.want)
			}
			if !strings.Contains(got.err, "--help") {
				t.Errorf("stderr %q does not point to help", got.err)
			}
			if strings.ContainsAny(got.err, "\x1b\r\x00") {
				t.Errorf("stderr %q carries a control character", got.err)
			}
		})
	}
}

func TestVersion(t *testing.T) {
	for _, args := range [][]string{{"version"}, {"--version"}} {
		got := run(t, args...)
		if got.status != statusOK || !strings.HasPrefix(got.out, "whyslow ") {
			t.Errorf("%v: %+v", args, got)
		}
	}
}

// A command tree must not remember an earlier run: tests and any program that
// embeds it run many.
func TestRunsDoNotShareState(t *testing.T) {
	first := run(t, "demo", "--list", "--json")
	second := run(t, "demo", "--list")
	if first.out == second.out || !strings.HasPrefix(first.out, "[") || strings.HasPrefix(second.out, "[") {
		t.Errorf("the second run kept --json of the first:\n%s\n%s", first.out, second.out)
	}
}
