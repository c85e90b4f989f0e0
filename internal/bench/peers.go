package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"

	"github.com/whyslow/whyslow/internal/netlab"
)

// peer is a program to measure beside.
type peer struct {
	program string
	debian  string   // its package
	version []string // arguments that make it tell its version
}

// peers are all that are compared with.
var peers = []peer{
	{"traceroute", "traceroute", []string{"--version"}},
	{"tracepath", "iputils-tracepath", []string{"-V"}},
	{"mtr", "mtr-tiny", []string{"--version"}},
	{"scamper", "scamper", []string{"-v"}},
	{"tcptraceroute", "tcptraceroute", []string{"--help"}},
}

// installPeers installs the packages of those peers that are missing.
func installPeers(ctx context.Context) error {
	var missing []string
	for _, p := range peers {
		if _, err := netlab.LookPath(p.program); err != nil {
			missing = append(missing, p.debian)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	cmd := exec.CommandContext(ctx, "apt-get", append([]string{"install", "-y", "--no-install-recommends"}, missing...)...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("installing %s: %w", strings.Join(missing, ", "), err)
	}
	return nil
}

var versionNumber = regexp.MustCompile(`\d+(\.\d+)*(beta\d+)?`)

// describe returns a program's name and version.
func (p peer) describe(ctx context.Context) string {
	path, err := netlab.LookPath(p.program)
	if err != nil {
		return p.program + " (missing)"
	}
	// Some print their version with a non-zero status.
	out, _ := exec.CommandContext(ctx, path, p.version...).CombinedOutput()
	text := string(out)
	// The number behind the word, else the first.
	for _, word := range []string{"version ", "iputils ", "mtr ", "tcptraceroute "} {
		if _, after, ok := strings.Cut(text, word); ok {
			if v := versionNumber.FindString(after); v != "" {
				return p.program + " " + v
			}
		}
	}
	return strings.TrimSpace(p.program + " " + versionNumber.FindString(text))
}
