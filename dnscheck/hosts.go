package dnscheck

import (
	"bufio"
	"io"
	"net/netip"
	"os"
	"slices"
	"strings"
)

// DefaultHosts is the hosts file that nsswitch's "files" reads.
const DefaultHosts = "/etc/hosts"

// maxHostsSize bounds what is read of a hosts file; blocklists of megabytes
// are in use.
const maxHostsSize = 64 << 20

// lookupHosts returns the addresses that the hosts file gives for name, in
// file order, of the wanted family. A file that cannot be read has none, as
// for glibc.
func lookupHosts(file, name string, f Family) []netip.Addr {
	if file == "" {
		file = DefaultHosts
	}
	fd, err := os.Open(file)
	if err != nil {
		return nil
	}
	defer fd.Close()
	return scanHosts(fd, name, f)
}

func scanHosts(r io.Reader, name string, f Family) []netip.Addr {
	var addrs []netip.Addr
	sc := bufio.NewScanner(io.LimitReader(r, maxHostsSize))
	sc.Buffer(make([]byte, 4096), 1<<20)
	for sc.Scan() {
		line, _, _ := strings.Cut(sc.Text(), "#")
		words := strings.Fields(line)
		// A relative and an absolute name are two strings to nss_files.
		if len(words) < 2 || !slices.ContainsFunc(words[1:], func(w string) bool { return strings.EqualFold(w, name) }) {
			continue
		}
		a, err := netip.ParseAddr(words[0])
		if err != nil || f == IPv4 && !a.Is4() || f == IPv6 && a.Is4() || slices.Contains(addrs, a) {
			continue
		}
		if addrs = append(addrs, a); len(addrs) == maxAddrs {
			break
		}
	}
	return addrs
}
