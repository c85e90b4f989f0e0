//go:build !linux

package netlab

import (
	"context"
	"net"
	"os"
	"time"

	"github.com/whyslow/whyslow/internal/simnet"
)

// Lab is a topology that runs; on this platform there is none.
type Lab struct {
	Client  *Namespace // the namespace of this process
	Carrier Carrier    // the carrier in use
}

// Namespace is the network of one end.
type Namespace struct{}

// Process is a program that runs in a namespace.
type Process struct{}

// Enter returns an error that says why there is no lab.
func Enter(context.Context, EnterConfig) (int, error) { return 0, Permitted() }

// Permitted says that labs need Linux.
func Permitted() error { return &PermissionError{Reason: NotLinux} }

// LookPath finds no program: none can run in a lab.
func LookPath(string) (string, error) { return "", ErrUnsupported }

// New returns ErrUnsupported for every valid Config.
func New(cfg Config) (*Lab, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return nil, ErrUnsupported
}

// Prepare returns ErrUnsupported.
func Prepare() error { return ErrUnsupported }

// Server returns nil.
func (*Lab) Server(simnet.NodeID) *Namespace { return nil }

// Model returns ErrUnsupported.
func (*Lab) Model(func(*simnet.Net)) error { return ErrUnsupported }

// Traffic returns nothing.
func (*Lab) Traffic() Traffic { return Traffic{} }

// Dir returns no directory.
func (*Lab) Dir() string { return "" }

// WriteFile returns ErrUnsupported.
func (*Lab) WriteFile(string, []byte) (string, error) { return "", ErrUnsupported }

// Close does nothing.
func (*Lab) Close() error { return nil }

// Name returns no name.
func (*Namespace) Name() string { return "" }

// Do returns ErrUnsupported.
func (*Namespace) Do(func() error) error { return ErrUnsupported }

// Listen returns ErrUnsupported.
func (*Namespace) Listen(string, string) (net.Listener, error) { return nil, ErrUnsupported }

// ListenPacket returns ErrUnsupported.
func (*Namespace) ListenPacket(string, string) (net.PacketConn, error) { return nil, ErrUnsupported }

// Dial returns ErrUnsupported.
func (*Namespace) Dial(context.Context, string, string) (net.Conn, error) {
	return nil, ErrUnsupported
}

// SetFiles returns ErrUnsupported.
func (*Namespace) SetFiles(Files) error { return ErrUnsupported }

// Start returns ErrUnsupported.
func (*Namespace) Start(Command) (*Process, error) { return nil, ErrUnsupported }

// Pid returns 0.
func (*Process) Pid() int { return 0 }

// Done returns a channel that is never closed.
func (*Process) Done() <-chan struct{} { return nil }

// Wait returns ErrUnsupported.
func (*Process) Wait(context.Context) error { return ErrUnsupported }

// Signal returns ErrUnsupported.
func (*Process) Signal(os.Signal) error { return ErrUnsupported }

// Stop does nothing.
func (*Process) Stop(time.Duration) {}

// Kill does nothing.
func (*Process) Kill() {}

// Output returns nothing.
func (*Process) Output() string { return "" }

// Dir returns no directory.
func (*Namespace) Dir() string { return "" }

// Chain is a chain of kernel routers; on this platform there is none.
type Chain struct{ Client, Server *Namespace }

// NewKernelChain returns ErrUnsupported for every valid ChainConfig.
func NewKernelChain(cfg ChainConfig) (*Chain, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return nil, ErrUnsupported
}

// Close does nothing.
func (*Chain) Close() error { return nil }
