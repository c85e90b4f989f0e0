package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/whyslow/whyslow/dnscheck"
	"github.com/whyslow/whyslow/internal/netprobe"
	"github.com/whyslow/whyslow/reports/render"
)

// doctorSchema names the JSON form of a checkup.
const doctorSchema = "whyslow/doctor/1"

// checkup is what this host permits whyslow to do.
type checkup struct {
	Schema       string    `json:"schema"`
	Version      string    `json:"version"`
	OS           string    `json:"os"`
	Can          []ability `json:"can"`
	Capabilities []finding `json:"capabilities"`
	Resolver     resolver  `json:"resolver"`
}

// ability is something a user wants, and whether the host permits it.
type ability struct {
	What string `json:"what"`
	OK   bool   `json:"ok"`
	How  string `json:"how"` // by what, or for want of what
}

// finding is a capability with, where it is missing, what to do about it.
type finding struct {
	netprobe.Capability
	Advice string `json:"advice,omitempty"`
}

// resolver is the resolver configuration in force.
type resolver struct {
	File        string   `json:"file"`
	Nameservers []string `json:"nameservers"`
	Search      []string `json:"search"`
	TimeoutMS   int64    `json:"timeout_ms"`
	Attempts    int      `json:"attempts"`
	Ndots       int      `json:"ndots"`
	Warnings    []string `json:"warnings"`
	Error       string   `json:"error,omitempty"`
}

type doctorOptions struct {
	json       bool
	resolvConf string
}

func newDoctor(env *Env) *cobra.Command {
	var o doctorOptions
	cmd := &cobra.Command{
		Use:   "doctor [FLAGS]",
		Short: "Say what this host permits, and the remedy for what it does not",
		Long: `Tries, on this machine alone, each kind of socket that whyslow can measure with,
and reads the resolver configuration. Nothing is changed and nothing leaves the
host. Whatever is missing comes with the one line that would mend it.`,
		Example: `  whyslow doctor
  whyslow doctor --json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runDoctor(cmd.Context(), env, &o)
		},
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "write JSON")
	cmd.Flags().Var(textValue{&o.resolvConf, "FILE"}, "resolv-conf", "read the resolver configuration from FILE")
	return cmd
}

func runDoctor(ctx context.Context, env *Env, o *doctorOptions) error {
	if o.resolvConf != "" {
		if err := checkReadable(o.resolvConf); err != nil {
			return usagef("--resolv-conf: %w", err)
		}
	}
	caps, ok := await(ctx, netprobe.Capabilities)
	if !ok || ctx.Err() != nil {
		return exit(statusInterrupted)
	}
	c := examine(caps, inspectResolver(o.resolvConf))
	if !o.json {
		return unwritten(c.write(env.Out))
	}
	enc := json.NewEncoder(env.Out)
	enc.SetIndent("", "  ")
	return unwritten(enc.Encode(c))
}

func examine(caps []netprobe.Capability, r resolver) *checkup {
	c := &checkup{Schema: doctorSchema, Version: version(),
		OS: runtime.GOOS + "/" + runtime.GOARCH, Resolver: r, Can: abilities(caps)}
	for _, k := range caps {
		c.Capabilities = append(c.Capabilities, finding{k, advice(k.Remedy)})
	}
	return c
}

// abilities folds the capabilities into what a user wants to do.
func abilities(caps []netprobe.Capability) []ability {
	any := func(what string, ids ...netprobe.CapabilityID) ability {
		for _, id := range ids {
			i := slices.IndexFunc(caps, func(c netprobe.Capability) bool { return c.ID == id })
			if i >= 0 && caps[i].State == netprobe.Available {
				return ability{What: what, OK: true, How: string(id)}
			}
		}
		return ability{What: what, How: "needs one of: " + joinIDs(ids)}
	}
	// Inside its own namespaces even an ordinary user may use packet sockets,
	// so these alone decide.
	lab := any("demo: the faulty network", netprobe.CapNamespaces)
	return []ability{
		{What: "http, dns, show", OK: true, How: "ordinary sockets"},
		any("trace by ICMP, IPv4", netprobe.CapRawICMP4, netprobe.CapPing4),
		any("trace by ICMP, IPv6", netprobe.CapRawICMP6, netprobe.CapPing6),
		any("trace by UDP, IPv4", netprobe.CapUDPErrors4),
		any("trace by UDP, IPv6", netprobe.CapUDPErrors6),
		any("trace by TCP, IPv4", netprobe.CapTCPConnect4),
		any("trace by TCP, IPv6", netprobe.CapTCPConnect6),
		any("one path by ICMP, IPv4", netprobe.CapRawICMP4, netprobe.CapPing4),
		any("one path by ICMP, IPv6", netprobe.CapRawICMP6, netprobe.CapPing6),
		any("one path by UDP, IPv4", netprobe.CapUDPErrors4),
		any("one path by UDP, IPv6", netprobe.CapUDPErrors6),
		oneTCPPath(any("", netprobe.CapRawICMP4), any("", netprobe.CapTCPConnect4), "IPv4"),
		oneTCPPath(any("", netprobe.CapRawICMP6), any("", netprobe.CapTCPConnect6), "IPv6"),
		any("MPLS labels, IPv4", netprobe.CapRawICMP4, netprobe.CapExtensions4),
		any("MPLS labels, IPv6", netprobe.CapRawICMP6, netprobe.CapExtensions6),
		any("MSS clamp and NAT, IPv4", netprobe.CapRawICMP4, netprobe.CapTCPConnect4),
		any("MSS clamp and NAT, IPv6", netprobe.CapRawICMP6, netprobe.CapTCPConnect6),
		any("quoted TTL and DSCP, IPv4", netprobe.CapRawICMP4),
		any("quoted TTL and DSCP, IPv6", netprobe.CapRawICMP6),
		any("pmtu, IPv4", netprobe.CapRawICMP4, netprobe.CapPing4, netprobe.CapUDPErrors4),
		any("pmtu, IPv6", netprobe.CapRawICMP6, netprobe.CapPing6, netprobe.CapUDPErrors6),
		lab,
	}
}

// oneTCPPath says whether TCP probes can keep one 5-tuple, and so one path
// where routers spread flows: all at once from raw sockets, else one after the
// other.
func oneTCPPath(raw, connect ability, family string) ability {
	a := ability{What: "one path by TCP, " + family, OK: true, How: raw.How}
	switch {
	case raw.OK:
	case connect.OK:
		a.How = connect.How + ", one probe after the other"
	default:
		a.OK, a.How = false, connect.How
	}
	return a
}

func joinIDs(ids []netprobe.CapabilityID) string {
	var s []string
	for _, id := range ids {
		s = append(s, string(id))
	}
	return strings.Join(s, ", ")
}

// advice is the remedy in one line, ready to copy where there is a command.
func advice(id netprobe.RemedyID) string {
	switch id {
	case netprobe.RemedyNetRaw:
		return "sudo setcap cap_net_raw+ep $(command -v whyslow), or run as root; optional, adds the TTL and DSCP that routers quote, and one path for TCP probes sent at once"
	case netprobe.RemedyPingGroupRange:
		return `sudo sysctl net.ipv4.ping_group_range="0 2147483647" (IPv6 obeys it too)`
	case netprobe.RemedyIPv6:
		return "sudo sysctl net.ipv6.conf.all.disable_ipv6=0, if the network has IPv6"
	case netprobe.RemedyTUNModule:
		return "sudo modprobe tun; optional, packet sockets serve as well"
	case netprobe.RemedyTUNPermission:
		return "sudo chmod 666 /dev/net/tun; optional, packet sockets serve as well"
	case netprobe.RemedyUserNS:
		return "sudo sysctl kernel.unprivileged_userns_clone=1 kernel.apparmor_restrict_unprivileged_userns=0 (the one that exists), or run as root"
	case netprobe.RemedyLoopbackUp:
		return "sudo ip link set lo up"
	case netprobe.RemedyFirewall:
		return "allow ICMP and UDP on the loopback interface in the local firewall or sandbox"
	case netprobe.RemedyKernel:
		return "Linux 5.9 or newer; until then MPLS labels are found where routers put them of old"
	case netprobe.RemedyPlatform:
		return "run whyslow on Linux for this"
	}
	return ""
}

func inspectResolver(file string) resolver {
	r := resolver{File: file, Nameservers: []string{}, Search: []string{}, Warnings: []string{}}
	cfg, err := dnscheck.LoadResolvConf(file)
	if err != nil {
		r.Error = readable(err)
		return r
	}
	r.File, r.TimeoutMS, r.Attempts, r.Ndots = cfg.File, cfg.Timeout.Milliseconds(), cfg.Attempts, cfg.Ndots
	r.Search = append(r.Search, cfg.Search...)
	r.Warnings = append(r.Warnings, cfg.Warnings...)
	for _, ns := range cfg.Nameservers {
		r.Nameservers = append(r.Nameservers, ns.String())
	}
	return r
}

// write shows the checkup on a terminal.
func (c *checkup) write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "whyslow %s on %s\n\nThis host permits\n", c.Version, c.OS)
	for _, a := range c.Can {
		fmt.Fprintf(&b, "  %-3s  %-26s %s\n", yesNo(a.OK), a.What, a.How)
	}
	b.WriteString("\nIn detail\n")
	for _, f := range c.Capabilities {
		state := string(f.State)
		if f.Errno != "" {
			state += " (" + f.Errno + ")"
		}
		fmt.Fprintf(&b, "  %-21s %s\n", f.ID, state)
		if f.State != netprobe.Available {
			fmt.Fprintf(&b, "      %s\n", render.Terminal(f.Detail, 0))
			if f.Advice != "" {
				fmt.Fprintf(&b, "      remedy: %s\n", f.Advice)
			}
		}
	}
	c.Resolver.write(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *resolver) write(b *strings.Builder) {
	b.WriteString("\nResolver\n")
	if r.Error != "" {
		fmt.Fprintf(b, "  %s\n", clean(r.Error))
		return
	}
	fmt.Fprintf(b, "  file         %s\n", clean(r.File))
	fmt.Fprintf(b, "  nameservers  %s\n", clean(strings.Join(r.Nameservers, " ")))
	if len(r.Search) > 0 {
		fmt.Fprintf(b, "  search       %s\n", clean(strings.Join(r.Search, " ")))
	}
	fmt.Fprintf(b, "  a dead server costs %d ms before the next is asked, %d rounds; ndots %d\n", r.TimeoutMS, r.Attempts, r.Ndots)
	for _, w := range r.Warnings {
		fmt.Fprintf(b, "  warning: %s\n", clean(w))
	}
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
