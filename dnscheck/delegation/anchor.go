package delegation

import (
	"fmt"
	"io"

	"github.com/miekg/dns"
)

// maxAnchors bounds the anchors of a file: two are usual while keys change.
const maxAnchors = 32

// PublicAnchors are the digests of the root's keys that IANA publishes
// (https://data.iana.org/root-anchors): KSK-2017 and KSK-2024.
func PublicAnchors() []*dns.DS {
	ds := func(tag uint16, digest string) *dns.DS {
		return &dns.DS{
			Hdr:    dns.RR_Header{Name: ".", Rrtype: dns.TypeDS, Class: dns.ClassINET},
			KeyTag: tag, Algorithm: dns.RSASHA256, DigestType: dns.SHA256, Digest: digest,
		}
	}
	return []*dns.DS{
		ds(20326, "e06d44b80b8f1d39a95c0b0d7c65d08458e880409bbc683457104237c7f8ec8d"),
		ds(38696, "683d2d0acb8c9b712a1948b27f741219298d0a450d612c483af444a4c0fb2b16"),
	}
}

// ReadAnchors reads trust anchors of the root: DS or DNSKEY records in zone
// file syntax, as in root.ds, or unbound's root.key.
func ReadAnchors(r io.Reader) ([]*dns.DS, error) {
	p := dns.NewZoneParser(io.LimitReader(r, 1<<20), ".", "")
	p.SetDefaultTTL(0)
	var out []*dns.DS
	for rr, ok := p.Next(); ok && len(out) < maxAnchors; rr, ok = p.Next() {
		if rr.Header().Name != "." {
			return nil, fmt.Errorf("delegation: trust anchor of %s: only the root's are used", rr.Header().Name)
		}
		switch v := rr.(type) {
		case *dns.DS:
			out = append(out, v)
		case *dns.DNSKEY:
			if v.Flags&dns.SEP == 0 || len(v.PublicKey) > maxKeyText {
				continue // a zone signing key comes and goes
			}
			if ds := v.ToDS(dns.SHA256); ds != nil {
				out = append(out, ds)
			}
		default:
			return nil, fmt.Errorf("delegation: %s is no trust anchor: DS or DNSKEY records are", dns.TypeToString[rr.Header().Rrtype])
		}
	}
	if err := p.Err(); err != nil {
		return nil, fmt.Errorf("delegation: reading trust anchors: %w", err)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("delegation: no trust anchor found: DS or DNSKEY records of the root are wanted")
	}
	return out, nil
}
