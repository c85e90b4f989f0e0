package servers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/whyslow/whyslow/internal/netlab"
)

const (
	// startTime is how long a daemon may take until it listens.
	startTime = 15 * time.Second
	// stopTime is how long it may take to end before it is killed.
	stopTime = 3 * time.Second
	// logTail is how much of a log file a message quotes.
	logTail = 8 << 10
)

// Daemon is a real server that runs in a namespace.
type Daemon struct {
	*netlab.Process
	name string
	dir  string
	logs []string // files in dir
}

// daemonConfig says how to run a server whose files are written already.
type daemonConfig struct {
	name     string // for messages
	programs []string
	args     []string
	dir      string
	logs     []string
	// It is ready when the file pid, if it writes one, is in dir and ready
	// succeeds at addrs.
	pid   string
	addrs []netip.AddrPort
	ready func(context.Context, *netlab.Namespace, netip.AddrPort) error
}

// startDaemon starts the server and waits until it listens.
func startDaemon(ctx context.Context, ns *netlab.Namespace, c daemonConfig) (*Daemon, error) {
	path, err := program(c.name, c.programs...)
	if err != nil {
		return nil, err
	}
	if err := handOver(c.dir); err != nil {
		return nil, fmt.Errorf("servers: preparing %s: %w", c.name, err)
	}
	p, err := ns.Start(netlab.Command{Path: path, Args: c.args, Dir: c.dir})
	if err != nil {
		return nil, fmt.Errorf("servers: starting %s: %w", c.name, err)
	}
	d := &Daemon{Process: p, name: c.name, dir: c.dir, logs: c.logs}
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	err = d.await(ctx, func() error {
		_, err := os.Stat(filepath.Join(c.dir, c.pid))
		return err
	})
	for _, a := range c.addrs {
		if err == nil {
			err = d.await(ctx, func() error { return c.ready(ctx, ns, a) })
		}
	}
	if err != nil {
		d.Kill()
		return nil, fmt.Errorf("servers: %s does not get ready: %w\n%s", c.name, err, d.Log())
	}
	return d, nil
}

// await tries until the daemon is ready.
func (d *Daemon) await(ctx context.Context, ready func() error) error {
	for {
		err := ready()
		if err == nil {
			return nil
		}
		select {
		case <-d.Done():
			return errors.New("it ended")
		case <-ctx.Done():
			return err
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// connects is ready when the daemon takes a connection.
func connects(ctx context.Context, ns *netlab.Namespace, addr netip.AddrPort) error {
	c, err := ns.Dial(ctx, "tcp", addr.String())
	if err != nil {
		return err
	}
	return c.Close()
}

// answers is ready when the daemon answers a query, however: one for its
// version, which no server asks others about.
func answers(ctx context.Context, ns *netlab.Namespace, addr netip.AddrPort) error {
	q := new(dns.Msg).SetQuestion("version.bind.", dns.TypeTXT)
	q.Question[0].Qclass = dns.ClassCHAOS
	_, err := exchange(ctx, ns, addr, q, 200*time.Millisecond)
	return err
}

// Close ends the daemon.
func (d *Daemon) Close() error {
	d.Stop(stopTime)
	return nil
}

// Log returns the end of what the daemon wrote to its logs and to the
// terminal, for messages about failures.
func (d *Daemon) Log() string {
	var b strings.Builder
	for _, name := range d.logs {
		content, err := os.ReadFile(filepath.Join(d.dir, name))
		if err != nil {
			continue
		}
		fmt.Fprintf(&b, "-- %s %s:\n%s\n", d.name, name, content[max(0, len(content)-logTail):])
	}
	fmt.Fprintf(&b, "-- %s output:\n%s", d.name, d.Output())
	return b.String()
}

// File returns the content of a file in the daemon's directory, such as a log.
func (d *Daemon) File(name string) (string, error) {
	b, err := os.ReadFile(filepath.Join(d.dir, name))
	if err != nil {
		return "", fmt.Errorf("servers: %s: %w", d.name, err)
	}
	return string(b), nil
}

// program finds the first of several names of a program.
func program(name string, names ...string) (string, error) {
	var first error
	for _, n := range names {
		path, err := netlab.LookPath(n)
		if err == nil {
			return path, nil
		}
		first = errors.Join(first, err)
	}
	return "", &NotInstalledError{Program: name, Err: first}
}

// newDir makes a directory for a daemon in the lab's scratch space and fills
// it with files.
func newDir(ns *netlab.Namespace, name string, files map[string][]byte) (string, error) {
	dir, err := os.MkdirTemp(ns.Dir(), name+"-")
	if err != nil {
		return "", fmt.Errorf("servers: making a directory for %s: %w", name, err)
	}
	for file, content := range files {
		path := filepath.Join(dir, filepath.Clean("/"+file))
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if err == nil {
			mode := os.FileMode(0o644)
			if bytes.HasPrefix(content, []byte("#!")) {
				mode = 0o755
			}
			err = os.WriteFile(path, content, mode)
		}
		if err != nil {
			return "", fmt.Errorf("servers: writing for %s: %w", name, err)
		}
	}
	return dir, nil
}

// account is the user a daemon that is started as root becomes, nil if this
// process is not root.
func account() *user.User {
	if os.Geteuid() != 0 {
		return nil
	}
	for _, name := range []string{"www-data", "nobody", "daemon"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		if _, err := user.LookupGroupId(u.Gid); err == nil {
			return u
		}
	}
	return nil
}

// groupName is the name of a user's group.
func groupName(u *user.User) string {
	if g, err := user.LookupGroupId(u.Gid); err == nil {
		return g.Name
	}
	return u.Username
}

// handOver gives a daemon's directory to the user it becomes.
func handOver(dir string) error {
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	u := account()
	if u == nil {
		return nil
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return err
	}
	gid, err := strconv.Atoi(u.Gid)
	if err != nil {
		return err
	}
	return filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chown(path, uid, gid)
	})
}
