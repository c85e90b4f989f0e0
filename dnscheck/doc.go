// Package dnscheck measures what resolving a name costs a program on this host,
// and which party made it cost that.
//
// Most DNS tools ask one server one question and time it. A program does
// something else: it calls getaddrinfo, whose stub resolver walks through the
// nameservers of resolv.conf, waits whole seconds for dead ones, tries search
// suffixes, and asks for A and AAAA together. So the first measurement here is
// the stub itself, performed for real by the rules of glibc 2.36 (see Stub),
// before anything else could warm a cache. Only then are the servers asked
// directly, each apart from the others, for what the stub's time was made of.
//
// # Limits
//
// The model is glibc's where Options do not ask for that of musl or of Go.
// It is getaddrinfo without AI_ADDRCONFIG, as curl calls it: with that flag a
// host that has addresses of one family asks for that family alone.
// nsswitch.conf is not read: "files dns" is assumed, as nearly every Linux
// host has it, and the Stub says so where the hosts file answered. The
// variables RES_OPTIONS, LOCALDOMAIN and HOSTALIASES are not read; a caller
// who wants them edits the Config. A validating resolver's reasons are seen
// only as far as it tells them (RFC 8914 extended errors, the CD bit).
//
// Authorities are not contacted here: a slow authority is inferred from the
// difference between what a resolver knows and what it must fetch. Package
// delegation asks them; its results have their types here, in Result.
package dnscheck
