package delegation

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"
)

const (
	// maxKeys bounds the DS and DNSKEY records looked at, maxSigs the
	// signatures of one set, maxKeyText the length of a public key (8192 bits
	// in base 64): a hostile zone must not choose how long we compute
	// (CVE-2023-50387).
	maxKeys    = 24
	maxSigs    = 8
	maxKeyText = 1400
	// maxVerifications bounds the signatures computed for one zone.
	maxVerifications = 48
)

// The states of a zone's chain of trust, as dnscheck.Signatures.Status.
const (
	secure      = "secure"
	unsigned    = "unsigned"
	bogus       = "bogus"
	unsupported = "unsupported"
	unchecked   = "unchecked"
)

// cutShort is the reason of a trust that another walk may yet establish.
const cutShort = "the walk was cut short"

// trust is how a zone's keys are vouched for.
type trust struct {
	status, reason string
	ds             []*dns.DS
	keys           []*dns.DNSKEY
	expires        time.Time // the earliest seen
	spent          int       // signatures computed
}

// secureZone establishes the trust of z, whose parent's must be known.
func (w *Walker) secureZone(ctx context.Context, z *zone) {
	if z.trusted != nil && z.trusted.reason != cutShort {
		return
	}
	t := &trust{}
	if z.parent == nil {
		t.ds = w.o.Anchors
	} else {
		w.askDS(ctx, z)
		t.ds = z.ds
	}
	s := w.first(ctx, z, z.name, dns.TypeDNSKEY)
	var set []dns.RR
	var sigs []*dns.RRSIG
	if s.outcome == "" && s.reply.kind == answers {
		set, sigs = rrset(s.msg.Answer, z.name, dns.TypeDNSKEY)
	}
	for _, rr := range set {
		if k, ok := rr.(*dns.DNSKEY); ok && len(t.keys) < maxKeys && len(k.PublicKey) <= maxKeyText &&
			k.Flags&dns.ZONE != 0 && k.Protocol == 3 { // RFC 4034, section 2.1
			t.keys = append(t.keys, k)
		}
	}
	if ctx.Err() != nil {
		t.status, t.reason = unchecked, cutShort
		z.trusted = t
		return
	}
	z.trusted = t
	if s.outcome == "limit" {
		t.status, t.reason = unchecked, "the bound of queries was met"
		return
	}
	if (s.plain || z.plain) && len(t.ds) > 0 {
		t.status, t.reason = unchecked, "signatures cannot be asked for without EDNS, which gets no answer"
		return
	}
	t.status, t.reason = w.judgeKeys(z, t, s, set, sigs)
}

// askDS asks the parent where its referral said nothing of keys: it may have
// been cut, or the cut was not seen.
func (w *Walker) askDS(ctx context.Context, z *zone) {
	if z.dsTold {
		return
	}
	s := w.first(ctx, z.parent, z.name, dns.TypeDS)
	if s.outcome == "" && s.reply.kind == answers {
		z.takeDS(s.msg.Answer)
		z.plain = s.plain
	}
	z.dsTold = s.outcome == ""
}

// judgeKeys is RFC 4035, section 5: the parent's digest leads to a key, and
// that key has signed all keys.
func (w *Walker) judgeKeys(z *zone, t *trust, s step, set []dns.RR, sigs []*dns.RRSIG) (status, reason string) {
	above := secure
	if z.parent != nil {
		above = z.parent.trusted.status
	}
	if len(t.ds) == 0 {
		switch {
		case z.parent == nil:
			return unchecked, "no trust anchor is given for this root"
		case !z.dsTold:
			return unchecked, "the parent did not say whether the zone is signed"
		case len(t.keys) > 0:
			return unsigned, "it is signed, but the parent has no DS record for it, so no resolver checks"
		}
		return unsigned, ""
	}
	usable := slices.DeleteFunc(slices.Clone(t.ds), func(ds *dns.DS) bool { return !knownAlgorithm(ds.Algorithm) || !knownDigest(ds.DigestType) })
	if len(usable) == 0 {
		return unsupported, fmt.Sprintf("algorithm %d or digest %d is not supported, so that it counts as unsigned", t.ds[0].Algorithm, t.ds[0].DigestType)
	}
	if z.parent != nil && len(z.parent.trusted.keys) > 0 && above != unsigned && above != bogus {
		if bad := w.verify(z.parent.trusted, z.parent.name, z.dsSet, z.dsSigs); bad != "" {
			return bogus, "the DS records at " + bare(z.parent.name) + " " + bad
		}
	}
	if len(t.keys) == 0 {
		if s.outcome != "" {
			return bogus, "its parent says that it is signed, but its keys cannot be had: " + s.note
		}
		return bogus, "its parent says that it is signed, but it has no DNSKEY records"
	}
	entry := entryKeys(usable, t.keys)
	if len(entry) == 0 {
		return bogus, fmt.Sprintf("no DNSKEY matches the parent's DS records (DS %s, keys %s)", tagsDS(usable), tagsKeys(t.keys))
	}
	only := &trust{keys: entry}
	bad := w.verify(only, z.name, set, sigs)
	t.note(only.expires)
	if bad != "" {
		return bogus, "its DNSKEY records " + bad
	}
	switch above {
	case bogus:
		return unchecked, "the chain from the root is broken above it"
	case unchecked:
		return unchecked, "the chain from the root is not vouched for"
	case unsigned, unsupported:
		return unsigned, "it is signed, but " + bare(z.parent.name) + " above it is not, so no resolver checks"
	}
	return secure, ""
}

// entryKeys are the keys that a DS record stands for.
func entryKeys(ds []*dns.DS, keys []*dns.DNSKEY) []*dns.DNSKEY {
	var out []*dns.DNSKEY
	for _, k := range keys {
		for _, d := range ds {
			if d.KeyTag != k.KeyTag() || d.Algorithm != k.Algorithm {
				continue
			}
			if made := k.ToDS(d.DigestType); made != nil && strings.EqualFold(made.Digest, d.Digest) {
				out = append(out, k)
				break
			}
		}
	}
	return out
}

// verify checks that one of the signatures over set is good, and says in a
// clause what is wrong otherwise: "are not signed", "have a signature that
// expired on …".
func (w *Walker) verify(t *trust, zone string, set []dns.RR, sigs []*dns.RRSIG) string {
	if len(set) == 0 {
		return "are missing"
	}
	if len(sigs) == 0 {
		return "are not signed"
	}
	bad := ""
	for _, sig := range sigs[:min(len(sigs), maxSigs)] {
		why := w.verifyOne(t, zone, set, sig)
		if why == "" {
			return ""
		}
		// The most telling reason stands: a date before a tag.
		if bad == "" || strings.Contains(why, "UTC") {
			bad = why
		}
	}
	return bad
}

func (w *Walker) verifyOne(t *trust, zone string, set []dns.RR, sig *dns.RRSIG) string {
	if lower(sig.SignerName) != zone {
		return "are signed by " + bare(lower(sig.SignerName)) + ", not by " + bare(zone)
	}
	from, until := serialTime(sig.Inception, w.now()), serialTime(sig.Expiration, w.now())
	t.note(until)
	switch {
	case w.now().After(until):
		return "have a signature that expired on " + stamp(until)
	case w.now().Before(from):
		return "have a signature that is not valid before " + stamp(from)
	case !knownAlgorithm(sig.Algorithm):
		return fmt.Sprintf("are signed by algorithm %d, which is not supported", sig.Algorithm)
	}
	tried := false
	for _, k := range t.keys {
		if k.KeyTag() != sig.KeyTag || k.Algorithm != sig.Algorithm || lower(k.Hdr.Name) != zone {
			continue
		}
		if t.spent >= maxVerifications {
			return "have more signatures than are checked"
		}
		t.spent++
		tried = true
		if sig.Verify(k, set) == nil {
			return ""
		}
	}
	if tried {
		return fmt.Sprintf("have a signature by key %d that does not fit", sig.KeyTag)
	}
	return fmt.Sprintf("are signed by key %d, which is not among the zone's (%s)", sig.KeyTag, tagsKeys(t.keys))
}

// note keeps the earliest end of a signature.
func (t *trust) note(until time.Time) {
	if !until.IsZero() && (t.expires.IsZero() || until.Before(t.expires)) {
		t.expires = until
	}
}

// serialTime reads a time of a signature: seconds modulo 2^32, within 68 years
// of now (RFC 4034, section 3.1.5).
func serialTime(v uint32, now time.Time) time.Time {
	return now.Add(time.Duration(int32(v-uint32(now.Unix()))) * time.Second).Truncate(time.Second).UTC()
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04") + " UTC" }

// knownAlgorithm reports whether signatures of an algorithm can be checked.
func knownAlgorithm(a uint8) bool {
	switch a {
	case dns.RSASHA1, dns.RSASHA1NSEC3SHA1, dns.RSASHA256, dns.RSASHA512, dns.ECDSAP256SHA256, dns.ECDSAP384SHA384, dns.ED25519:
		return true
	}
	return false
}

func knownDigest(d uint8) bool { return d == dns.SHA1 || d == dns.SHA256 || d == dns.SHA384 }

func tagsDS(ds []*dns.DS) string {
	var out []string
	for _, d := range ds {
		out = append(out, fmt.Sprint(d.KeyTag))
	}
	return strings.Join(out, ", ")
}

func tagsKeys(keys []*dns.DNSKEY) string {
	if len(keys) == 0 {
		return "none"
	}
	var out []string
	for _, k := range keys {
		out = append(out, fmt.Sprint(k.KeyTag()))
	}
	return strings.Join(out, ", ")
}
