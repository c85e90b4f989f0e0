package dnscheck

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	// maxConfSize bounds a resolv.conf. Real ones have hundreds of bytes.
	maxConfSize = 1 << 20
	// maxSearch bounds the search list. glibc ≥ 2.26 has no bound of its own.
	maxSearch = 64
	// maxConfWarnings bounds the remarks on one file.
	maxConfWarnings = 20
)

// LoadResolvConf reads file, empty meaning DefaultResolvConf. A file that does
// not exist is no error, as for glibc: the nameserver is then 127.0.0.1. Where
// the file has no search list, the domain of the host's name is it.
func LoadResolvConf(file string) (*Config, error) {
	if file == "" {
		file = DefaultResolvConf
	}
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		c := DefaultConfig()
		c.File = file
		c.warn(0, "%s does not exist: glibc asks 127.0.0.1", file)
		c.defaultSearch()
		return c, nil
	}
	if err != nil {
		return nil, fmt.Errorf("dnscheck: reading the resolver configuration: %w", err)
	}
	defer f.Close()
	if st, err := f.Stat(); err == nil && st.IsDir() {
		return nil, fmt.Errorf("dnscheck: reading the resolver configuration: %s is a directory", file)
	}
	c, err := ParseResolvConf(f)
	if err != nil {
		return nil, err
	}
	c.File = file
	c.defaultSearch()
	return c, nil
}

// defaultSearch sets the search list from the host's own name where the file
// had none: what follows its first dot (res_init.c, domain_from_hostname).
func (c *Config) defaultSearch() {
	if c.SearchLine != 0 || c.SearchRoot {
		return
	}
	host, err := os.Hostname()
	if err != nil {
		return
	}
	if _, domain, ok := strings.Cut(host, "."); ok && domain != "" {
		c.Search = []string{domain}
	}
}

// ParseResolvConf reads a resolv.conf as glibc 2.36's res_init.c does: the
// keyword at the very start of a line and a blank after it, comments only at
// the very start, the last of search and domain wins, at most three
// nameservers, values capped. What glibc ignores is ignored here too, and
// named in Warnings. The error is of reading alone.
func ParseResolvConf(r io.Reader) (*Config, error) {
	c := DefaultConfig()
	c.Nameservers = nil
	br := bufio.NewReader(io.LimitReader(r, maxConfSize+1))
	size := 0
	for n := 1; ; n++ {
		line, err := br.ReadString('\n')
		size += len(line)
		if size > maxConfSize {
			return nil, fmt.Errorf("dnscheck: reading the resolver configuration: more than %d bytes", maxConfSize)
		}
		c.parseLine(n, line)
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("dnscheck: reading the resolver configuration: %w", err)
		}
	}
	if len(c.Nameservers) == 0 {
		c.warn(0, "no nameserver line: glibc asks 127.0.0.1")
		c.Nameservers = DefaultConfig().Nameservers
		c.NameserverLines = nil
	}
	return c, nil
}

func (c *Config) parseLine(n int, line string) {
	line = strings.TrimSuffix(line, "\n")
	// C strings end at a NUL.
	line, _, _ = strings.Cut(line, "\x00")
	if line == "" || line[0] == ';' || line[0] == '#' {
		return
	}
	if strings.HasSuffix(line, "\r") {
		c.warn(n, "the line ends with a carriage return, which glibc takes for part of the last word")
	}
	i := strings.IndexAny(line, " \t")
	if i <= 0 {
		if strings.TrimSpace(line) != "" {
			c.warn(n, "%s is ignored: glibc wants a keyword at the start of the line and a blank after it", quote(line))
		}
		return
	}
	key, rest := line[:i], strings.TrimLeft(line[i:], " \t")
	switch key {
	case "nameserver":
		c.parseNameserver(n, rest)
	case "domain":
		c.parseSearch(n, fields(rest), 1)
	case "search":
		c.parseSearch(n, fields(rest), maxSearch)
	case "options":
		c.OptionsLine = n
		for _, w := range fields(rest) {
			c.parseOption(n, w)
		}
	case "sortlist":
		// It reorders addresses of gethostbyname and costs no time.
	default:
		c.warn(n, "keyword %s is unknown to glibc and ignored", quote(key))
	}
}

func fields(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ' ' || r == '\t' })
}

func (c *Config) parseNameserver(n int, rest string) {
	words := fields(rest)
	if len(words) == 0 {
		c.warn(n, "nameserver without an address is ignored")
		return
	}
	// glibc takes the first word and overlooks whatever follows.
	a, ok := parseNameserverAddr(words[0])
	if !ok {
		c.warn(n, "nameserver %s is no address and ignored", quote(words[0]))
		return
	}
	if len(c.Nameservers) == maxNameservers {
		c.warn(n, "nameserver %s is never asked: glibc takes the first %d", a, maxNameservers)
		return
	}
	c.Nameservers = append(c.Nameservers, a)
	c.NameserverLines = append(c.NameserverLines, n)
}

// parseNameserverAddr reads an IPv4 address as inet_aton does, or an IPv6
// address, possibly with a zone.
func parseNameserverAddr(s string) (netip.Addr, bool) {
	if a, ok := inetAton(s); ok {
		return a, true
	}
	a, err := netip.ParseAddr(s)
	if err != nil || !a.Is6() {
		return netip.Addr{}, false
	}
	return a, true
}

// inetAton reads the classical forms of an IPv4 address: one to four parts,
// each decimal, octal (0…) or hexadecimal (0x…), the last one filling the rest.
// glibc accepts them in resolv.conf: "nameserver 127.1" works.
func inetAton(s string) (netip.Addr, bool) {
	parts := strings.Split(s, ".")
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	var v uint64
	for i, p := range parts {
		if p == "" || p[0] < '0' || p[0] > '9' || strings.Contains(p, "_") ||
			strings.HasPrefix(p, "0b") || strings.HasPrefix(p, "0B") ||
			strings.HasPrefix(p, "0o") || strings.HasPrefix(p, "0O") {
			return netip.Addr{}, false
		}
		x, err := strconv.ParseUint(p, 0, 32)
		if err != nil {
			return netip.Addr{}, false
		}
		if i < len(parts)-1 {
			if x > 255 {
				return netip.Addr{}, false
			}
			v |= x << (24 - 8*i)
			continue
		}
		if x >= 1<<(32-8*i) {
			return netip.Addr{}, false
		}
		v |= x
	}
	return netip.AddrFrom4([4]byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)}), true
}

func (c *Config) parseSearch(n int, words []string, limit int) {
	if len(words) == 0 {
		// glibc leaves the list as it was.
		c.warn(n, "search or domain without a name is ignored")
		return
	}
	if len(words) > limit {
		c.warn(n, "%d names where %d are taken", len(words), limit)
		words = words[:limit]
	}
	c.Search, c.SearchRoot, c.SearchLine = nil, false, n
	for _, w := range words {
		// A leading dot is skipped by res_query.c, so that "." means the root.
		w = strings.TrimSuffix(strings.TrimPrefix(w, "."), ".")
		switch {
		case w == "":
			c.SearchRoot = true
		case len(w) > maxNameLen || !validName(w):
			c.warn(n, "search domain %s is no domain name", quote(w))
		default:
			if strings.HasPrefix(w, "#") || strings.HasPrefix(w, ";") {
				c.warn(n, "glibc takes %s for a search domain: comments must start the line", quote(w))
			}
			c.Search = append(c.Search, w)
		}
	}
}

// parseOption reads one word of an options line. glibc compares the beginning
// of the word alone, so that "rotated" rotates.
func (c *Config) parseOption(n int, w string) {
	c.Options = append(c.Options, w)
	if v, ok := strings.CutPrefix(w, "ndots:"); ok {
		// A field of 4 bits: a negative number wraps.
		c.Ndots = c.capped(n, w, atoi(v), maxNdots) & 15
		return
	}
	if v, ok := strings.CutPrefix(w, "timeout:"); ok {
		c.Timeout = time.Duration(c.capped(n, w, atoi(v), int(maxTimeout/time.Second))) * time.Second
		if c.Timeout <= 0 {
			c.warn(n, "%s: glibc waits 1 s", quote(w))
			c.Timeout = 0
		}
		return
	}
	if v, ok := strings.CutPrefix(w, "attempts:"); ok {
		c.Attempts = max(0, c.capped(n, w, atoi(v), maxAttempts))
		if c.Attempts == 0 {
			c.warn(n, "%s: glibc asks no server at all", quote(w))
		}
		return
	}
	// The order matters: "single-request" begins "single-request-reopen".
	for _, o := range []struct {
		name string
		flag *bool
	}{
		{"rotate", &c.Rotate},
		{"edns0", &c.EDNS0},
		{"single-request-reopen", &c.SingleRequestReopen},
		{"single-request", &c.SingleRequest},
		{"no_tld_query", &c.NoTLDQuery},
		{"no-tld-query", &c.NoTLDQuery},
		{"no-reload", nil},
		{"use-vc", &c.UseVC},
		{"trust-ad", &c.TrustAD},
		{"no-aaaa", &c.NoAAAA},
	} {
		if strings.HasPrefix(w, o.name) {
			if o.flag != nil {
				*o.flag = true
			}
			return
		}
	}
	c.warn(n, "option %s is unknown to glibc 2.36 and ignored", quote(w))
}

func (c *Config) capped(n int, w string, v, limit int) int {
	if v > limit {
		c.warn(n, "%s is capped at %d", quote(w), limit)
		return limit
	}
	return v
}

// atoi reads a number as C's atoi does: leading digits, 0 if there are none.
func atoi(s string) int {
	s = strings.TrimLeft(s, " \t\n\v\f\r")
	end := 0
	if end < len(s) && (s[end] == '-' || s[end] == '+') {
		end++
	}
	for end < len(s) && s[end] >= '0' && s[end] <= '9' {
		end++
	}
	v, err := strconv.ParseInt(s[:end], 10, 32)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0
	}
	return int(v)
}

// warn adds a remark on a line, 0 meaning the file as a whole.
func (c *Config) warn(line int, format string, args ...any) {
	if len(c.Warnings) > maxConfWarnings {
		return
	}
	if len(c.Warnings) == maxConfWarnings {
		c.Warnings = append(c.Warnings, "resolver configuration: further remarks left out")
		return
	}
	text := fmt.Sprintf(format, args...)
	if line > 0 {
		text = fmt.Sprintf("resolver configuration, line %d: %s", line, text)
	} else {
		text = "resolver configuration: " + text
	}
	c.Warnings = append(c.Warnings, text)
}

// quote shows a piece of somebody else's text, bounded.
func quote(s string) string {
	if len(s) > 60 {
		s = s[:60] + "…"
	}
	return strconv.Quote(s)
}
