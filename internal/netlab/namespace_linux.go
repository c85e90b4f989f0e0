package netlab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// errClosed says that a namespace is gone.
var errClosed = errors.New("netlab: the lab is closed")

// Namespace is the network of one end: the client's, which is that of this
// process, or a server's. It may be used by several goroutines.
type Namespace struct {
	name string
	// netns is the namespace; -1 for the client's, where every thread that
	// nobody moved already is.
	netns int
	files *fileSystem

	// The keeper is a thread that stays in the namespace while it exists. It
	// starts the processes, which die with it.
	tasks  chan func()
	quit   chan struct{}
	ended  chan struct{}
	closed sync.Once

	mu        sync.Mutex
	processes []*Process
	gone      bool // netns is closed
}

// newNamespace makes a namespace and its keeper. With a client it is the
// process's own one.
func newNamespace(name string, client bool, fsys *fileSystem) (*Namespace, error) {
	ns := &Namespace{
		name: name, netns: -1, files: fsys,
		tasks: make(chan func()), quit: make(chan struct{}), ended: make(chan struct{}),
	}
	ready := make(chan error)
	go ns.keep(client, ready)
	if err := <-ready; err != nil {
		<-ns.ended
		return nil, fmt.Errorf("netlab: making the namespace of %s: %w", name, err)
	}
	return ns, nil
}

// keep is the keeper's goroutine.
func (ns *Namespace) keep(client bool, ready chan<- error) {
	defer close(ns.ended)
	// Never unlocked: a thread in a foreign namespace must not be reused, and
	// ends with this goroutine.
	runtime.LockOSThread()
	if !client {
		if err := ns.move(); err != nil {
			ready <- err
			return
		}
	}
	ready <- nil
	for {
		select {
		case f := <-ns.tasks:
			f()
		case <-ns.quit:
			ns.mu.Lock()
			defer ns.mu.Unlock()
			ns.gone = true
			if ns.netns >= 0 {
				_ = unix.Close(ns.netns)
			}
			return
		}
	}
}

// move takes the calling thread into new network and mount namespaces.
func (ns *Namespace) move() error {
	if err := unix.Unshare(unix.CLONE_NEWNET | unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("unshare: %w", err)
	}
	if err := private(); err != nil {
		return err
	}
	fd, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("opening the network namespace: %w", err)
	}
	ns.netns = fd
	return nil
}

// Name is the end's name.
func (ns *Namespace) Name() string { return ns.name }

// inKeeper runs f on the keeper's thread.
func (ns *Namespace) inKeeper(f func() error) error {
	done := make(chan error, 1)
	select {
	case ns.tasks <- func() { done <- f() }:
		return <-done
	case <-ns.ended:
		return errClosed
	}
}

// Do runs f on a thread in the namespace. Sockets that f opens stay in the
// namespace; goroutines that f starts do not run in it.
func (ns *Namespace) Do(f func() error) error {
	there, err := ns.descriptor()
	if err != nil {
		return err
	}
	if there < 0 {
		return f()
	}
	done := make(chan error, 1)
	// In a goroutine of its own, so that a thread that can't come back is
	// lost and not the caller's.
	go func() {
		defer func() { _ = unix.Close(there) }()
		runtime.LockOSThread()
		home, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			done <- fmt.Errorf("netlab: opening the thread's namespace: %w", err)
			return
		}
		defer func() { _ = unix.Close(home) }()
		if err := unix.Setns(there, unix.CLONE_NEWNET); err != nil {
			done <- fmt.Errorf("netlab: entering the namespace of %s: %w", ns.name, err)
			return
		}
		err = f()
		if unix.Setns(home, unix.CLONE_NEWNET) == nil {
			runtime.UnlockOSThread()
		}
		done <- err
	}()
	return <-done
}

// descriptor returns a new descriptor of the namespace, -1 for the client's.
func (ns *Namespace) descriptor() (int, error) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	switch {
	case ns.gone:
		return -1, errClosed
	case ns.netns < 0:
		return -1, nil
	}
	fd, err := unix.FcntlInt(uintptr(ns.netns), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("netlab: entering the namespace of %s: %w", ns.name, err)
	}
	return fd, nil
}

// Listen announces on an address of the namespace, as net.Listen does.
func (ns *Namespace) Listen(network, address string) (l net.Listener, err error) {
	err = ns.Do(func() error {
		l, err = net.Listen(network, address)
		return err
	})
	return l, err
}

// ListenPacket announces on an address of the namespace, as net.ListenPacket
// does.
func (ns *Namespace) ListenPacket(network, address string) (c net.PacketConn, err error) {
	err = ns.Do(func() error {
		c, err = net.ListenPacket(network, address)
		return err
	})
	return c, err
}

// Dial connects from the namespace to an address. The host must be an IP
// address: names would be resolved on threads outside.
func (ns *Namespace) Dial(ctx context.Context, network, address string) (c net.Conn, err error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil || net.ParseIP(host) == nil {
		return nil, fmt.Errorf("netlab: dialing %q: not an IP address and port", address)
	}
	err = ns.Do(func() error {
		c, err = new(net.Dialer).DialContext(ctx, network, address)
		return err
	})
	return c, err
}

// SetFiles replaces files of the host as processes started in the namespace
// from now on see them. It works once for each file, and not for the client,
// whose processes share this process's view.
func (ns *Namespace) SetFiles(f Files) error {
	if ns.netns < 0 {
		return fmt.Errorf("netlab: %s shares the files of this process", ns.name)
	}
	for path, content := range map[string][]byte{
		"/etc/resolv.conf": f.ResolvConf,
		"/etc/hosts":       f.Hosts,
		// Without this, a resolver daemon that the C library asks over a
		// local socket would answer around the lab.
		"/etc/nsswitch.conf": nsswitch(f),
	} {
		if content == nil {
			continue
		}
		if err := ns.inKeeper(func() error { return ns.files.replace(path, content) }); err != nil {
			return fmt.Errorf("netlab: replacing %s for %s: %w", path, ns.name, err)
		}
	}
	return nil
}

func nsswitch(f Files) []byte {
	if f.ResolvConf == nil {
		return nil
	}
	if _, err := os.Stat("/etc/nsswitch.conf"); err != nil {
		return nil // the C library's own default does
	}
	return []byte("passwd: files\ngroup: files\nhosts: files dns\n")
}

// close ends the namespace's processes and its keeper.
func (ns *Namespace) close() {
	ns.closed.Do(func() {
		ns.mu.Lock()
		running := ns.processes
		ns.mu.Unlock()
		for _, p := range running {
			p.Kill()
		}
		close(ns.quit)
		<-ns.ended
	})
}

// Dir is the lab's scratch directory, the same for all its namespaces.
func (ns *Namespace) Dir() string { return ns.files.dir }
