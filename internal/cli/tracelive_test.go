package cli

import (
	"context"
	"strings"
	"testing"
)

// What --live cannot do is refused before anything is measured, with the flag
// at fault and what to use instead.
func TestLiveIsRefused(t *testing.T) {
	terminal := func(term string) Env {
		return Env{OutTerminal: true, ErrTerminal: true, Getenv: func(name string) string { return map[string]string{"TERM": term}[name] }}
	}
	tests := []struct {
		name string
		env  Env
		args string
		want string
	}{
		{"no terminal", Env{}, "", "--live needs a terminal; for a file or a program use -c N"},
		{"dumb terminal", terminal("dumb"), "", "TERM is dumb; use -c N"},
		{"queries", terminal("xterm"), "-q 3", "-q, --queries: --live goes on until q is pressed; use -c N"},
		{"events on the terminal", terminal("xterm"), "--format jsonl", "--format jsonl: --live has the terminal"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := runEnv(t, context.Background(), tt.env, append([]string{"trace", "--live", "127.0.0.1"}, strings.Fields(tt.args)...)...)
			if got.status != statusUsage || !strings.Contains(got.err, tt.want) || got.out != "" {
				t.Errorf("status %d, stdout %q, stderr %q, want %q", got.status, got.out, got.err, tt.want)
			}
		})
	}
}
