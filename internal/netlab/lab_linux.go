package netlab

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/whyslow/whyslow/internal/simnet"
)

// Lab is a topology that runs. Its methods may be called from several
// goroutines.
type Lab struct {
	// Client is the namespace of this process.
	Client *Namespace
	// Carrier is the carrier in use.
	Carrier Carrier

	servers map[simnet.NodeID]*Namespace
	files   *fileSystem
	driver  *driver
	once    sync.Once
	err     error
}

// New starts a lab. It needs a process that Enter or Main started, and only one
// lab may exist in it at a time.
func New(cfg Config) (*Lab, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if !Inside() {
		return nil, ErrOutside
	}
	l := &Lab{servers: map[simnet.NodeID]*Namespace{}}
	if err := l.start(cfg); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// Prepare makes this process's own namespace usable before there is a lab: a
// new one has not even a loopback device. New does it too.
func Prepare() error {
	if !Inside() {
		return ErrOutside
	}
	if err := namespaceSettings(); err != nil {
		return fmt.Errorf("netlab: %w", err)
	}
	return nil
}

// start builds what a lab consists of; Close undoes it from any point.
func (l *Lab) start(cfg Config) (err error) {
	if l.files, err = newFileSystem(); err != nil {
		return err
	}
	l.Carrier = cfg.Carrier
	if l.Carrier == AutoCarrier {
		l.Carrier = Veth
		if tunOpens() {
			l.Carrier = TUN
		}
	}
	if l.driver, err = newDriver(cfg.Net, l.Carrier); err != nil {
		return err
	}
	for _, e := range cfg.withMTUs() {
		ns, err := newNamespace(e.name(), e.Node == cfg.Client, l.files)
		if err != nil {
			return err
		}
		if e.Node == cfg.Client {
			l.Client = ns
		} else {
			l.servers[e.Node] = ns
		}
		if err := l.driver.attach(ns, e); err != nil {
			return fmt.Errorf("netlab: connecting %s: %w", e.name(), err)
		}
	}
	l.driver.start()
	return nil
}

// Server returns the namespace of an end other than the client, nil if there
// is none.
func (l *Lab) Server(node simnet.NodeID) *Namespace { return l.servers[node] }

// Model runs f with the model while no packet moves: to change a link, or to
// read the statistics. f must be quick, and must not keep the model.
func (l *Lab) Model(f func(*simnet.Net)) error { return l.driver.model(f) }

// Traffic counts what was carried so far.
func (l *Lab) Traffic() Traffic { return l.driver.traffic() }

// Dir is a directory in memory for files that the lab's servers share with
// this process. It is gone after Close.
func (l *Lab) Dir() string { return l.files.dir }

// WriteFile writes a file that the lab's servers and this process can read and
// returns its path.
func (l *Lab) WriteFile(name string, content []byte) (string, error) {
	path, err := l.files.write(name, content)
	if err != nil {
		return "", fmt.Errorf("netlab: writing %s: %w", filepath.Base(name), err)
	}
	return path, nil
}

// Close ends the servers, removes the interfaces with their routes and path
// MTUs, and waits for everything that the lab started.
func (l *Lab) Close() error {
	l.once.Do(func() {
		var errs []error
		for _, ns := range l.servers {
			ns.close()
		}
		if l.driver != nil {
			errs = append(errs, l.driver.close())
		}
		if l.Client != nil {
			l.Client.close()
		}
		if l.files != nil {
			errs = append(errs, l.files.close())
		}
		l.err = errors.Join(errs...)
	})
	return l.err
}
