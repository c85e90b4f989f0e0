package netprobe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/whyslow/whyslow/internal/wire"
	"golang.org/x/sys/unix"
)

// tryWait is how long an answer from loopback is waited for.
const tryWait = 500 * time.Millisecond

func hostCapabilities(ctx context.Context) []Capability {
	raw := func(ctx context.Context, rt route, cfg Config) (Conn, error) {
		return openRaw(ctx, rt, cfg, wire.ICMP)
	}
	list := []Capability{
		tryOnLoopback(ctx, CapRawICMP4, family4, raw, RemedyNetRaw),
		tryOnLoopback(ctx, CapRawICMP6, family6, raw, RemedyNetRaw),
		tryOnLoopback(ctx, CapPing4, family4, openPing, RemedyPingGroupRange),
		tryOnLoopback(ctx, CapPing6, family6, openPing, RemedyPingGroupRange),
		tryOnLoopback(ctx, CapUDPErrors4, family4, openUDP, RemedyFirewall),
		tryOnLoopback(ctx, CapUDPErrors6, family6, openUDP, RemedyFirewall),
		tryOnLoopback(ctx, CapTCPConnect4, family4, openTCP, RemedyFirewall),
		tryOnLoopback(ctx, CapTCPConnect6, family6, openTCP, RemedyFirewall),
		tryExtensions(ctx, CapExtensions4, family4),
		tryExtensions(ctx, CapExtensions6, family6),
	}
	list = append(list, tryStamps(ctx)...)
	return append(list, tryTUN(ctx), tryNamespaces(ctx), tryPacket(ctx))
}

// tryOnLoopback opens a Conn to the loopback address and probes it. remedy is
// what helps where the kernel denies the socket.
func tryOnLoopback(ctx context.Context, id CapabilityID, f *family, open opener, remedy RemedyID) Capability {
	c := Capability{ID: id, State: Available}
	if !loopbackIsUp() {
		c.State, c.Remedy, c.Detail = Unavailable, RemedyLoopbackUp, "the loopback interface is down"
		return c
	}
	reply, info, err := askLoopback(ctx, f, open)
	if err == nil {
		c.Detail = fmt.Sprintf("%s socket: %v answered", info.Socket, reply.From)
		return c
	}
	c.Detail = err.Error()
	c.setErrno(err)
	switch errno := errnoOf(err); {
	case ctx.Err() != nil:
		c.State = Failed
	case f == family6 && (errors.Is(err, ErrUnreachable) || errno == unix.EADDRNOTAVAIL || errno == unix.EAFNOSUPPORT):
		c.State, c.Remedy = Unavailable, RemedyIPv6
	case errno == unix.EPROTONOSUPPORT, errno == unix.ESOCKTNOSUPPORT, errno == unix.EAFNOSUPPORT:
		c.State = Unavailable
	case errors.Is(err, ErrNotPermitted):
		c.State, c.Remedy = Denied, remedy
	default:
		c.State, c.Remedy = Failed, RemedyFirewall
	}
	return c
}

// errSilent says that loopback did not answer a probe.
var errSilent = errors.New("loopback did not answer")

// askLoopback sends one probe to a port that refuses, and returns the answer.
func askLoopback(ctx context.Context, f *family, open opener) (wire.Reply, Info, error) {
	port, release, err := refusingPort(f)
	if err != nil {
		return wire.Reply{}, Info{}, err
	}
	defer release()
	cfg := Config{}
	rt, err := lookupRoute(f.loopback(), cfg)
	if err != nil {
		return wire.Reply{}, Info{}, err
	}
	cfg.Port = port
	conn, err := open(ctx, rt, cfg)
	if err != nil {
		return wire.Reply{}, Info{}, err
	}
	defer conn.Close()
	info := conn.(Informer).Info()
	ctx, cancel := context.WithTimeout(ctx, tryWait)
	defer cancel()
	if _, err := conn.Send(wire.Probe{Seq: 1}); err != nil {
		return wire.Reply{}, info, err
	}
	reply, err := conn.Recv(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%w within %v", errSilent, tryWait)
	}
	return reply, info, err
}

// refusingPort returns a port that nothing listens on, for UDP and TCP alike,
// and holds its TCP side until release.
func refusingPort(f *family) (port uint16, release func(), err error) {
	fd, err := f.socket(unix.SOCK_STREAM, unix.IPPROTO_TCP)
	if err != nil {
		return 0, nil, err
	}
	if err := bind(fd, "", f.loopback(), 0); err != nil {
		unix.Close(fd)
		return 0, nil, err
	}
	local, err := localOf(fd)
	if err != nil {
		unix.Close(fd)
		return 0, nil, err
	}
	return local.Port(), func() { unix.Close(fd) }, nil
}

// loopbackIsUp reports whether loopback could answer, or cannot be asked about.
func loopbackIsUp() bool {
	ifaces, err := net.Interfaces()
	if err != nil {
		return true
	}
	for _, ifi := range ifaces {
		if ifi.Flags&net.FlagLoopback != 0 && ifi.Flags&net.FlagUp != 0 {
			return true
		}
	}
	return false
}

// tryStamps reports on kernel timestamps, of arrivals and of departures, by
// whichever family the loopback has.
func tryStamps(ctx context.Context) []Capability {
	rx := Capability{ID: CapTimestampsRX, State: Available, Detail: "arrivals are timed by the kernel"}
	tx := Capability{ID: CapTimestampsTX, State: Available, Detail: "departures are timed by the kernel"}
	var reply wire.Reply
	var err error
	// The kernel switches timestamps on in the background, so that the first
	// packets after the first socket asked may come without.
	for range 5 {
		if reply, _, err = askLoopback(ctx, family4, openUDP); err != nil {
			reply, _, err = askLoopback(ctx, family6, openUDP)
		}
		if err != nil || reply.KernelTime && !reply.Sent.IsZero() {
			break
		}
	}
	switch {
	case err != nil:
		for _, c := range []*Capability{&rx, &tx} {
			c.State, c.Detail = Failed, err.Error()
			c.setErrno(err)
		}
	case !reply.KernelTime:
		rx.State, rx.Detail = Unavailable, "an arrival came without a kernel timestamp"
	}
	if err == nil && reply.Sent.IsZero() {
		tx.State, tx.Detail = Unavailable, "no transmit timestamp came back (net.core.tstamp_allow_data, or the driver)"
	}
	return []Capability{rx, tx}
}

// tryExtensions asks a socket for where the extensions of ICMP errors begin,
// which hold MPLS labels; Linux 5.9 was the first to tell.
func tryExtensions(ctx context.Context, id CapabilityID, f *family) Capability {
	c := Capability{ID: id, State: Available, Detail: "the error queue tells where extensions begin"}
	if c.ended(ctx) {
		return c
	}
	fd, err := f.socket(unix.SOCK_DGRAM, unix.IPPROTO_UDP)
	if err == nil {
		err = setOptions(fd, option{name: "RECVERR_RFC4884", level: f.level, opt: f.extensions, value: 1})
		unix.Close(fd)
	}
	if err != nil {
		c.Detail = err.Error()
		c.setErrno(err)
		c.State, c.Remedy = Unavailable, RemedyKernel
		if errnoOf(err) == unix.EAFNOSUPPORT {
			c.Remedy = RemedyIPv6
		}
	}
	return c
}

// tryTUN opens the TUN device, which creates no interface yet.
func tryTUN(ctx context.Context) Capability {
	c := Capability{ID: CapTUN, State: Available, Detail: "/dev/net/tun can be opened"}
	if c.ended(ctx) {
		return c
	}
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err == nil {
		_, err = unix.IoctlGetInt(fd, unix.TUNGETFEATURES)
		unix.Close(fd)
	}
	if err == nil {
		return c
	}
	c.Detail = fmt.Sprintf("opening /dev/net/tun: %v", err)
	c.setErrno(err)
	switch err {
	case unix.EACCES, unix.EPERM:
		c.State, c.Remedy = Denied, RemedyTUNPermission
	default:
		c.State, c.Remedy = Unavailable, RemedyTUNModule
	}
	return c
}

// tryNamespaces starts a child in new namespaces that is to execute a name no
// file can have. That it fails with ENAMETOOLONG, and nothing earlier, proves
// that the namespaces were made and their owner may use them (which AppArmor
// can forbid though the clone succeeds), and runs no program.
func tryNamespaces(ctx context.Context) Capability {
	c := Capability{ID: CapNamespaces, State: Available}
	if c.ended(ctx) {
		return c
	}
	root := &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNET}
	user := &syscall.SysProcAttr{
		Cloneflags:   unix.CLONE_NEWUSER,
		Unshareflags: unix.CLONE_NEWNET,
		UidMappings:  []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
		GidMappings:  []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
	}
	if os.Geteuid() == 0 && cloneWith(root) == nil {
		c.Detail = "a network namespace can be made"
		return c
	}
	err := cloneWith(user)
	if err == nil {
		c.Detail = "a user namespace with a network namespace can be made"
		return c
	}
	c.Detail = fmt.Sprintf("making a user and a network namespace: %v", err)
	c.setErrno(err)
	switch errnoOf(err) {
	case unix.EPERM, unix.EACCES, unix.ENOSPC, unix.EUSERS: // ENOSPC: user.max_user_namespaces is 0
		c.State, c.Remedy = Denied, RemedyUserNS
	case unix.EINVAL, unix.ENOSYS: // built without
		c.State = Unavailable
	default:
		c.State = Failed
	}
	return c
}

func cloneWith(attr *syscall.SysProcAttr) error {
	impossible := "/" + strings.Repeat("x", 300) // NAME_MAX is 255
	pid, err := syscall.ForkExec(impossible, []string{"none"}, &syscall.ProcAttr{Sys: attr})
	if err == nil { // cannot be, but would leave a child
		_, err = syscall.Wait4(pid, nil, 0, nil)
		return err
	}
	if err == unix.ENAMETOOLONG {
		return nil
	}
	return err
}

// tryPacket opens a packet socket that receives nothing.
func tryPacket(ctx context.Context) Capability {
	c := Capability{ID: CapPacket, State: Available, Detail: "a packet socket can be opened"}
	if c.ended(ctx) {
		return c
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		unix.Close(fd)
		return c
	}
	c.Detail = fmt.Sprintf("opening a packet socket: %v", err)
	c.setErrno(err)
	c.State = Unavailable
	if err == unix.EPERM || err == unix.EACCES {
		c.State, c.Remedy = Denied, RemedyNetRaw
	}
	return c
}

// setErrno names the system call error in err, if there is one.
func (c *Capability) setErrno(err error) {
	if e := errnoOf(err); e != 0 {
		c.Errno = unix.ErrnoName(e)
	}
}

// ended marks what was not tried because ctx has ended.
func (c *Capability) ended(ctx context.Context) bool {
	err := ctx.Err()
	if err != nil {
		c.State, c.Detail = Failed, err.Error()
	}
	return err != nil
}
